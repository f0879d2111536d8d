#include "framework/nn/layers.h"

#include "framework/autograd/norms.h"
#include "framework/autograd/recompute.h"
#include "framework/core/span.h"

namespace longspan {
namespace {

// Returns the context for a chunk of rows inside a split region. Dropout is equal to that of the
// full activation.
ForwardContext of_piece(ForwardContext pass, const RowChunk& piece, std::int64_t time) {
  if (pass.active_rows) {
    const Tensor placed =
        pass.active_rows->row_of_position.slice(piece.begin, piece.begin + piece.rows());
    pass.active_rows = std::make_shared<const ActiveRows>(ActiveRows{{}, placed});
    return pass;
  }
  const Ranges rows = pass.time.total > 0 ? pass.time.inside() : Ranges{{0, time}};
  pass.first_stream += piece.outer_begin;
  pass.time = {.total = pass.time.total > 0 ? pass.time.total : time,
               .shares = {slice(rows, piece.middle_begin, piece.middle_begin + piece.middle)}};
  return pass;
}

// Returns the placement of an activation [batch, time, width] in that of all ranks.
ShardPlacement placement_of(const Shape& shape,
                            const ForwardContext& pass,
                            const std::optional<ShardRange>& part) {
  require(shape.dimensions() == 3, "dropout requires 3 axes, found shape {}", shape);
  const bool placed = pass.time.total > 0;
  const Ranges rows = !placed ? Ranges() : (part ? pass.time.inside() : pass.time.outside());
  return {.outer_begin = pass.first_stream,
          .middle_total = placed ? pass.time.total : shape[1],
          .inner_begin = part ? part->begin : 0,
          .inner_total = part ? part->total : shape.width(),
          .middle_ranges = rows};
}

// Creates a linear layer into the hidden layer.
Linear inward(const Scope& scope, const FeedForward::Options& options) {
  return Linear(scope,
                {.in = options.width,
                 .out = options.hidden,
                 .split = ParallelMode::columns,
                 .bias = options.bias,
                 .initial = options.initial});
}

// Returns the split axis of a weight [out, in].
int split_axis_of(ParallelMode split) {
  return split == ParallelMode::none ? -1 : (split == ParallelMode::rows ? 1 : 0);
}

Weight weight_of(const Scope& scope, const Linear::Options& options) {
  const Shape shape = {options.out, options.in};
  const Initializer initial =
      options.initial.value_or(Initializer::xavier(options.in, options.out));
  const int axis = split_axis_of(options.split);
  return options.hidden ? scope.hidden_matrix("weight", shape, initial, axis)
                        : scope.weight("weight", shape, initial, axis);
}

}  // namespace

Linear::Linear(const Scope& scope, const Options& options)
    : name_(scope.path()),
      region_(scope.parameters().mesh().tensor),
      split_(options.split),
      weight_(weight_of(scope, options)) {
  if (options.bias)
    bias_ = scope.bias(
        options.out, options.split == ParallelMode::columns ? 0 : -1, options.initial_bias);
  if (!options.hidden) return;
  scope.add_linear_layer();
  if (scope.parameters().tuning().adapters.adapts(name_))
    adapter_.emplace(scope, options.out, options.in, split_axis_of(options.split));
}

void Linear::check_width(const Variable& x) const {
  const Shape& weight = weight_->variable.shape();
  require(x.shape().width() == weight[1],
          "Linear \"{}\": expected {} input features, found {}",
          name_,
          weight[1],
          x.shape().width());
}

Variable Linear::bias() const {
  return bias_ && (split_ != ParallelMode::rows || region_.whole()) ? bias_->variable : Variable();
}

Variable Linear::product(const Variable& x, const ForwardContext* pass) const {
  const Span span({.kind = ActivityKind::layer, .layer = name_});
  check_width(x);
  if (!adapter_) return linear(x, weight(), bias());
  return linear_of_two(x, weight(), adapter_->narrow(x, pass), adapter_->up(), bias());
}

Variable Linear::operator()(const Variable& x) const {
  require(split_ != ParallelMode::rows,
          "Linear \"{}\": row parallelism requires a reduction of the output",
          name_);
  return product(x, nullptr);
}

Variable Linear::operator()(const Variable& x, const ForwardContext& pass) const {
  return split_ == ParallelMode::rows ? join(share(x, pass), pass.time) : product(x, &pass);
}

Variable Linear::share(const Variable& x, const ForwardContext& pass) const {
  require(split_ == ParallelMode::rows,
          "Linear \"{}\": only row parallelism reduces its output",
          name_);
  return product(x, &pass);
}

Variable Linear::join(Variable&& shares, const SequenceShard& time) const {
  if (region_.whole()) return std::move(shares);
  Variable y = region_.leave(std::move(shares), time);
  return bias_ ? add_bias(y, bias_->variable) : y;
}

namespace {

// The initializer of a weight whose gain starts as `gain`.
Initializer initial_weight(Initializer gain, bool zero_centered) {
  if (zero_centered) gain.mean -= 1;
  return gain;
}

}  // namespace

Norm::Norm(const Scope& scope, std::int64_t width, const NormOptions& form, const Initializer& gain)
    : epsilon_(form.epsilon),
      gain_{scope.weight("weight", {width}, initial_weight(gain, form.zero_centered)),
            form.zero_centered} {
  if (form.kind != NormKind::rms) bias_ = scope.weight("bias", {width}, Initializer::constant(0));
  if (form.kind == NormKind::power)
    statistics_ = scope.power_statistics(width, form.power, form.epsilon);
}

Variable Norm::operator()(const Variable& x, std::optional<DType> dtype) const {
  const Span span({.kind = ActivityKind::layer, .layer = layer_of(gain_.weight)});
  if (statistics_)
    return power_norm(x, gain_(), bias_->variable, divided_by_average(*statistics_), dtype);
  if (!bias_) return rms_norm(x, gain_(), epsilon_, dtype);
  return layer_norm(x, gain_(), bias_->variable, epsilon_, dtype);
}

Variable Norm::operator()(const Variable& x,
                          const ForwardContext& pass,
                          const Tensor& length,
                          std::optional<DType> dtype) const {
  if (!statistics_) return (*this)(x, dtype);
  const Span span({.kind = ActivityKind::layer, .layer = layer_of(gain_.weight)});
  const PowerRows rows = followed(statistics_, x.value(), length, pass);
  return power_norm(x, gain_(), bias_->variable, rows, dtype);
}

Variable Norm::second_read(const Variable& x,
                           const ForwardContext& pass,
                           const Tensor& length,
                           std::optional<DType> dtype) const {
  if (!statistics_) return (*this)(x, dtype);
  const Span span({.kind = ActivityKind::layer, .layer = layer_of(gain_.weight)});
  const PowerRows rows = followed(statistics_, x.value(), length, pass, true);
  return power_norm(x, gain_(), bias_->variable, rows, dtype);
}

ResidualNorm Norm::of_sum(const Variable& x,
                          Variable&& change,
                          double rate,
                          const ForwardContext& pass,
                          const Tensor& length) const {
  const Span span({.kind = ActivityKind::layer, .layer = layer_of(gain_.weight)});
  if (statistics_) {
    Variable sum = longspan::dropout_add(x, change, rate, pass);
    change = {};
    Variable norm = (*this)(sum, pass, length);
    return {std::move(sum), std::move(norm)};
  }
  const ShardPlacement placement = placement_of(x.shape(), pass, {});
  const double dropped = pass.training ? rate : 0;
  if (!bias_)
    return residual_rms_norm(
        x, std::move(change), dropped, pass.random, placement, gain_(), epsilon_);
  return residual_layer_norm(
      x, std::move(change), dropped, pass.random, placement, gain_(), bias_->variable, epsilon_);
}

QKNorm::QKNorm(const Scope& scope, std::int64_t dim, const NormOptions& form)
    : epsilon_(form.epsilon),
      gain_{scope.replicated_weight(
                "weight", {dim}, initial_weight(Initializer::constant(1), form.zero_centered)),
            form.zero_centered} {
  require(form.kind != NormKind::power, "QK norm does not support powernorm");
  if (form.kind == NormKind::layer)
    bias_ = scope.replicated_weight("bias", {dim}, Initializer::constant(0));
}

Variable drop(const Variable& x,
              double rate,
              const ForwardContext& pass,
              const std::optional<ShardRange>& part) {
  if (!pass.training || rate == 0) return x;
  if (part && pass.active_rows)
    return dropout(x,
                   rate,
                   pass.random,
                   {.inner_begin = part->begin, .inner_total = part->total},
                   pass.active_rows->row_of_position);
  return dropout(x, rate, pass.random, placement_of(x.shape(), pass, part));
}

Variable dropout_add(const Variable& x,
                     const Variable& change,
                     double rate,
                     const ForwardContext& pass) {
  if (!pass.training || rate == 0) return add(x, change);
  return dropout_add(x, change, rate, pass.random, placement_of(change.shape(), pass, {}));
}

FeedForward::FeedForward(const Scope& scope, const Options& options)
    : region_(scope.parameters().mesh().tensor),
      hidden_(scope.part(options.hidden)),
      activation_(options.activation),
      dropout_(options.dropout),
      chunks_(options.chunks),
      in_(inward(scope.child("in"), options)),
      up_(options.gated ? std::optional(inward(scope.child("up"), options)) : std::nullopt),
      out_(scope.child("out"),
           {.in = options.hidden,
            .out = options.width,
            .split = ParallelMode::rows,
            .bias = options.bias,
            .initial = options.initial_out ? options.initial_out : options.initial}) {}

Variable FeedForward::share(const Variable& x, const ForwardContext& pass, bool unread) const {
  in_.check_width(x);
  Hidden hidden = {.activation = activation_};
  if (pass.training && dropout_ > 0) {
    const ForwardContext inside = pass.child("hidden");
    hidden.rate = dropout_;
    hidden.random = inside.random;
    if (inside.active_rows) {
      hidden.placement = {.inner_begin = hidden_.begin, .inner_total = hidden_.total};
      hidden.rows = inside.active_rows->row_of_position;
    } else {
      hidden.placement = placement_of(x.shape(), inside, hidden_);
    }
  }
  if (in_.adapted() || (up_ && up_->adapted()) || out_.adapted())
    return adapted_share(x, pass, hidden);
  if (up_)
    return gated_feed_forward(
        x,
        {in_.weight(), in_.bias(), up_->weight(), up_->bias(), out_.weight(), out_.bias()},
        hidden,
        unread);
  return feed_forward(x, {in_.weight(), in_.bias(), out_.weight(), out_.bias()}, hidden, unread);
}

// Unfused variant: separate products, each with its adapter.
Variable FeedForward::adapted_share(const Variable& x,
                                    const ForwardContext& pass,
                                    const Hidden& hidden) const {
  Variable inside = in_(x, pass);
  inside = up_ ? gated(activation_, inside, (*up_)(x, pass)) : activate(activation_, inside);
  return out_.share(dropout(inside, hidden.rate, hidden.random, hidden.placement, hidden.rows),
                    pass);
}

Variable FeedForward::operator()(const Variable& x, const ForwardContext& pass) const {
  if (!pass.active_rows) return of_all(x, pass);
  const RowSubset& rows = pass.active_rows->rows;
  return scatter_rows(of_all(gather_rows(x, rows), pass), rows, x.shape());
}

Variable FeedForward::of_all(const Variable& x, const ForwardContext& pass) const {
  const Variable inside = region_.enter(x, pass.time);
  if (chunks_ == 1) return out_.join(share(inside, pass), pass.time);
  const Shape shape = inside.shape();
  const auto piece_of = [layer = *this, pass, time = shape[1]](bool unread) {
    return [=](const Variable& rows, const RowChunk& piece) {
      return layer.share(rows, of_piece(pass, piece, time), unread);
    };
  };
  const Variable shares = recompute_chunked(piece_of(false), inside, chunks_, piece_of(true));
  return out_.join(reshape(shares, shape.with(-1, shares.shape()[1])), pass.time);
}

}  // namespace longspan
