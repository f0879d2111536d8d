#include "framework/nn/attention/rwkv7_layer.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/gated_recurrence.h"
#include "framework/autograd/norms.h"
#include "framework/autograd/recompute.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/nn/position_convolution.h"

namespace longspan {
namespace {

// As in the authors' code: a step keeps at least e^(-e^(-1/2)) = 0.545 of a channel, and the norm
// has an epsilon of 1e-5 for each channel of a head.
const double fastest_decay = std::exp(-0.5);
constexpr double norm_epsilon_per_channel = 1e-5;

// Rounds to a multiple of 32, at least 32.
std::int64_t default_rank(double factor, std::int64_t width) {
  const double tiles = std::round(factor * std::sqrt(static_cast<double>(width)) / 32);
  return 32 * std::max<std::int64_t>(1, static_cast<std::int64_t>(tiles));
}

// Returns x factor. x: [batch, time, n]; factor: the same or [n], accumulator dtype.
Variable scaled(const Variable& x, const Variable& factor) {
  const Shape& shape = x.shape();
  return reshape(scale_heads(reshape(x, {shape[0], shape[1], shape[2], 1}), factor), shape);
}

// The parameter in the accumulator dtype of x.
Variable wide(const Weight& weight, const Variable& x) {
  return cast(weight->variable, accumulator_of(x.value().dtype()));
}
Variable wide(const Variable& x) { return cast(x, accumulator_of(x.value().dtype())); }

// x + shift (x_(t-1) - x), from the difference.
Variable shifted(const Variable& x, const Variable& difference, const Weight& shift) {
  return add(x, scaled(difference, wide(shift, x)));
}

std::string problem_of_rwkv7(const AttentionOptions& options,
                             const AttentionBuildOptions& setting) {
  if (!setting.causal)
    return "model.attention.layer_types: rwkv7 requires a causal model; use it in a decoder";
  if (!setting.value_residual)
    return "model.attention.layer_types: rwkv7 reads the values of the first layer, which requires "
           "layers that run once and have no cross-attention; use it in a decoder";
  const AttentionKind* const first = attention_kind(options, 0);
  if (first == nullptr || first->name != "rwkv7")
    return "model.attention.layer_types: rwkv7 layers read the values of the first layer; expected "
           "rwkv7 as the first element";
  return validate_memory("rwkv7", setting);
}

std::unique_ptr<AttentionOp> make_rwkv7(const Scope& attention,
                                        const AttentionOptions& options,
                                        const AttentionBuildOptions& setting) {
  throw_if_error(problem_of_rwkv7(options, setting));
  return std::make_unique<Rwkv7Op>(attention,
                                   Rwkv7Op::Options{.rwkv7 = options.rwkv7,
                                                    .heads = setting.heads,
                                                    .dim = setting.dim,
                                                    .width = setting.width,
                                                    .layer = setting.layer,
                                                    .layers = setting.layers});
}

Linear projection(const Scope& scope, const Rwkv7Op::Options& options, double bound) {
  return Linear(
      scope,
      {.in = options.width,
       .out = options.heads * options.dim,
       .split = ParallelMode::columns,
       .bias = false,
       .initial = Initializer::uniform(bound / std::sqrt(static_cast<double>(options.width)))});
}

DType wide_dtype(const Scope& scope) { return accumulator_of(scope.parameters().compute_dtype()); }

// A constant of the layer, which repeats `values` up to its shape.
Variable constant(const Scope& scope, const Shape& shape, std::vector<double> values, DType dtype) {
  const std::size_t period = values.size();
  values.resize(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = period; i < values.size(); ++i) values[i] = values[i - period];
  return cast(Variable(Tensor::from<double>(values, shape, scope.parameters().device())), dtype)
      .detach();
}

}  // namespace

void declare(OptionTable& table, Rwkv7Options& options) {
  const auto add = [&](const char* name, std::optional<std::int64_t>& rank, const char* text) {
    table.add(std::string("model.attention.rwkv7.") + name,
              rank,
              text,
              between(1, 1 << 16),
              affects_weights(),
              only_with(layer_type({"rwkv7"})));
  };
  add("decay_low_rank_dim",
      options.decay_rank,
      "rank of the decay's projection; none: 2.5 sqrt(model.hidden_size), rounded to a multiple of "
      "32");
  add("a_low_rank_dim",
      options.rate_rank,
      "rank of the projection of the in-context learning rate a; none: as decay_low_rank_dim");
  add("v_low_rank_dim",
      options.value_rank,
      "rank of the projection that mixes values with those of the first layer; none: 1.7 "
      "sqrt(model.hidden_size), rounded to a multiple of 32");
  add("gate_low_rank_dim",
      options.gate_rank,
      "rank of the output gate's projection; none: 5 sqrt(model.hidden_size), rounded to a "
      "multiple of 32");
}

Weight Rwkv7Op::shift(const Scope& scope, double exponent) const {
  const double depth = static_cast<double>(options_.layer) /
                       static_cast<double>(std::max<std::int64_t>(options_.layers, 1));
  return scope.replicated_weight(
      "shift", {options_.width}, Initializer::power(1, 0, exponent * (1 - depth)));
}

Rwkv7Op::LowRank Rwkv7Op::low_rank(const Scope& scope,
                                   std::int64_t rank,
                                   const std::optional<Initializer>& bias) const {
  const std::int64_t features = options_.heads * options_.dim;
  const double deviation = 0.1 / std::sqrt(static_cast<double>(features));
  return {.down = scope.replicated_weight(
              "down", {rank, options_.width}, Initializer::xavier(options_.width, rank)),
          .up = Linear(scope,
                       {.in = rank,
                        .out = features,
                        .split = ParallelMode::columns,
                        .bias = false,
                        .initial = Initializer::normal(deviation)}),
          .bias = bias ? scope.no_decay_weight("bias", {features}, *bias, 0) : nullptr};
}

Rwkv7Op::Rwkv7Op(const Scope& scope, const Options& options)
    : options_(options),
      mesh_(scope.parameters().mesh()),
      passes_states_(passes_states(mesh_, options.heads)),
      taps_(constant(scope, {options.width, 2}, {1, -1}, wide_dtype(scope))),
      unit_gain_(constant(scope, {options.dim}, {1}, wide_dtype(scope))),
      summands_(constant(scope, {1, options.dim}, {1}, scope.parameters().compute_dtype())),
      query_(projection(scope.child("query"), options, 0.5)),
      key_(projection(scope.child("key"), options, 0.05)),
      value_(projection(scope.child("value"), options, 0.5)),
      query_shift_(shift(scope.child("query"), 0.2)),
      key_shift_(shift(scope.child("key"), 0.7)),
      value_shift_(shift(scope.child("value"), 0.7)),
      decay_shift_(shift(scope.child("decay"), 0.9)),
      rate_shift_(shift(scope.child("rate"), 0.9)),
      gate_shift_(shift(scope.child("output_gate"), 0.2)),
      decay_(
          low_rank(scope.child("decay"),
                   options.rwkv7.decay_rank.value_or(default_rank(2.5, options.width)),
                   // Logits from -6.5 to -1.5: half-lives from 760 tokens to 6.
                   Initializer::power(-6.5,
                                      -1.5,
                                      0.85 + std::sqrt(static_cast<double>(options.layer) /
                                                       static_cast<double>(std::max<std::int64_t>(
                                                           options.layers - 1, 1)))))),
      rate_(low_rank(scope.child("rate"),
                     options.rwkv7.rate_rank.value_or(
                         options.rwkv7.decay_rank.value_or(default_rank(2.5, options.width))),
                     Initializer::constant(-0.19))),
      gate_(low_rank(scope.child("output_gate"),
                     options.rwkv7.gate_rank.value_or(default_rank(5, options.width)),
                     std::nullopt)) {
  if (options.layer > 0)
    value_residual_ = low_rank(scope.child("value_residual"),
                               options.rwkv7.value_rank.value_or(default_rank(1.7, options.width)),
                               Initializer::constant(0.73));
  const std::int64_t features = options.heads * options.dim;
  const auto vector = [&](const Scope& where, const char* name, double value) {
    return where.no_decay_weight(name, {features}, Initializer::constant(value), 0);
  };
  key_scale_ = vector(scope, "key_scale", 0.71);
  rate_scale_ = vector(scope, "rate_scale", 1.02);
  bonus_ = vector(scope, "bonus", -0.04);
  norm_gain_ = vector(
      scope.child("output_norm"),
      "weight",
      std::pow(static_cast<double>(options.layer + 1) / static_cast<double>(options.layers), 0.7));
  norm_bias_ = vector(scope.child("output_norm"), "bias", 0);
  no_bias_ = constant(scope, {options.dim}, {0}, wide_dtype(scope));
  no_gate_bias_ = constant(scope, {gate_.down->global_shape[0]}, {0}, wide_dtype(scope));
}

std::vector<RecurrentStateSpec> Rwkv7Op::recurrent_states(const Parameters& parameters) const {
  std::vector<RecurrentStateSpec> states = {
      state_of_heads(
          parameters, options_.heads, options_.dim, options_.dim, split_of_states(passes_states_)),
      state_of_convolution(parameters, "token_shift", 2, options_.width, StateSplit::none)};
  if (options_.layer == 0)
    states.push_back(
        state_of_convolution(parameters, "value_shift", 2, options_.width, StateSplit::none));
  return states;
}

Variable Rwkv7Op::difference(const ProjectedQKV& input,
                             const AttentionContext& context,
                             const ForwardContext& pass,
                             std::size_t index) const {
  return convolve_positions(
      input.input,
      taps_,
      {.document_position = context.mask.max_lookback, .state = chunk_state(input, index)},
      position_shards(pass, mesh_));
}

Variable Rwkv7Op::first_value(const ProjectedQKV& input,
                              const AttentionContext& context,
                              const ForwardContext& pass) const {
  const Variable change = difference(input, context, pass, 2);
  return value_(shifted(input.input, change, value_shift_), pass.of_all_rows());
}

Variable Rwkv7Op::operator()(const ProjectedQKV& input,
                             const AttentionContext& context,
                             const ForwardContext& pass) const {
  require_causal(context.mask, "rwkv7");
  require(context.first_value.defined(), "rwkv7 requires the values of the first layer");
  const ForwardContext rows = pass.of_all_rows();
  const Variable& x = input.input;
  const Variable change = difference(input, context, pass, 1);
  const auto in_heads = [&](const Variable& features) {
    const Shape& shape = features.shape();
    return reshape(features, {shape[0], shape[1], input.heads.count, options_.dim});
  };
  const auto down = [](const LowRank& gate, const Variable& from) {
    return linear(from, gate.down->variable, Variable());
  };
  // Returns limit times the sigmoid of the logits, in the accumulator dtype.
  const auto open = [&](const LowRank& gate, const Variable& low, double limit) {
    return token_spans(gate.up(low, rows), wide(gate.bias, x), limit);
  };

  const Variable query = query_(shifted(x, change, query_shift_), rows);
  const Variable raw_key = key_(shifted(x, change, key_shift_), rows);
  Variable value = context.first_value;
  if (value_residual_) {
    const Variable from = shifted(x, change, value_shift_);
    const Variable logits = value_residual_->up(down(*value_residual_, from), rows);
    value = gate(GateFunction::highway,
                 context.first_value,
                 value_(from, rows),
                 logits,
                 wide(value_residual_->bias, x));
  }
  const Variable log_decay =
      open(decay_, tanh(down(decay_, shifted(x, change, decay_shift_))), -fastest_decay);
  const Variable rate = open(rate_, down(rate_, shifted(x, change, rate_shift_)), 1);

  const Variable unit = l2_normalize(in_heads(scaled(raw_key, wide(key_scale_, x))));
  const Variable correction = in_heads(scaled(reshape(unit, raw_key.shape()), rate));
  const Variable factor = add_scalar(scaled(add_scalar(rate, -1), wide(rate_scale_, x)), 1);
  const Variable key = scaled(raw_key, factor);

  const SharedRecurrence shared = shared_recurrence(input, passes_states_);
  const std::optional<SequenceShards>& exchanged = shared.exchanged.shares;
  const auto all = [&](const Variable& of_rows) { return gather_heads(of_rows, exchanged); };
  const Variable y = local_shard(
      gated_recurrence(all(in_heads(query)),
                       all(in_heads(key)),
                       all(in_heads(value)),
                       {.log_decay = all(in_heads(log_decay)),
                        .a = multiply_scalar(all(unit), -1),
                        .b = all(correction)},
                       {.document_position = gather_document_positions(context.mask, exchanged),
                        .state = chunk_state(input, 0),
                        .shares = shared.passed}),
      shared.exchanged);

  const Variable low = down(gate_, shifted(x, change, gate_shift_));
  const Variable opening =
      gate_.up(cast(token_spans(low, no_gate_bias_, 1), x.value().dtype()), rows);
  return recompute([this](const std::vector<Variable>& in) { return finish(in); },
                   {y, in_heads(query), in_heads(key), in_heads(value), in_heads(opening)});
}

Variable Rwkv7Op::finish(const std::vector<Variable>& in) const {
  const Variable &y = in[0], &query = in[1], &key = in[2], &value = in[3], &gate = in[4];
  const Shape& shape = y.shape();
  const Shape features = {shape[0], shape[1], shape[2] * shape[3]};
  const auto flat = [&](const Variable& x) { return reshape(x, features); };
  const Variable normed = layer_norm(
      y, unit_gain_, no_bias_, norm_epsilon_per_channel * static_cast<double>(options_.dim));
  const Variable centered =
      add_bias(scaled(flat(normed), wide(norm_gain_, y)), wide(norm_bias_, y));
  // The current token once more, by its own key.
  const Variable products = scaled(scaled(flat(query), wide(flat(key))), wide(bonus_, y));
  const Variable shares = linear(reshape(products, shape), summands_, Variable());
  const Variable own = scale_heads(value, wide(reshape(shares, {shape[0], shape[1], shape[2]})));
  return reshape(scaled(add(centered, flat(own)), wide(flat(gate))), shape);
}

AttentionKind rwkv7_kind() {
  AttentionKind kind = recurrent_kind(
      "rwkv7", "as delta_net, with a decay and a step size of each channel and token");
  kind.problem = problem_of_rwkv7;
  kind.make = make_rwkv7;
  return kind;
}

}  // namespace longspan
