#include "framework/nn/layers.h"

namespace longspan {

Linear::Linear(const Scope& scope, const Options& options)
    : name_(scope.path()),
      region_(scope.parameters().mesh().tensor),
      split_(options.split),
      weight_(scope.weight(
          "weight",
          {options.out, options.in},
          options.initial.value_or(Initial::xavier(options.in, options.out)),
          options.split == Split::none ? -1 : (options.split == Split::rows ? 1 : 0))) {
  if (options.bias)
    bias_ = scope.weight(
        "bias", {options.out}, Initial::constant(0), options.split == Split::columns ? 0 : -1);
}

void Linear::check_width(const Variable& x) const {
  const Shape& weight = weight_->variable.shape();
  require(x.shape().width() == weight[1],
          "Linear \"{}\": input has {} features, weight expects {}",
          name_,
          x.shape().width(),
          weight[1]);
}

Variable Linear::operator()(const Variable& x, Activation activation) const {
  check_width(x);
  require(split_ != Split::rows, "Linear \"{}\": a row split leaves its region", name_);
  return linear(x, weight_->variable, bias_ ? bias_->variable : Variable(), activation);
}

Variable Linear::operator()(const Variable& x, const TimeDivision& time) const {
  check_width(x);
  require(split_ == Split::rows, "Linear \"{}\": only a row split leaves a region", name_);
  const Variable bias = bias_ ? bias_->variable : Variable();
  if (region_.whole()) return linear(x, weight_->variable, bias);
  Variable y = region_.leave(linear(x, weight_->variable, Variable()), time);
  return bias.defined() ? add_bias(y, bias) : y;
}

Norm::Norm(const Scope& scope, std::int64_t width, double epsilon)
    : epsilon_(epsilon),
      weight_(scope.weight("weight", {width}, Initial::constant(1))),
      bias_(scope.weight("bias", {width}, Initial::constant(0))) {}

Variable Norm::operator()(const Variable& x) const {
  return layer_norm(x, weight_->variable, bias_->variable, epsilon_);
}

Variable drop(const Variable& x, double rate, const Pass& pass, const std::optional<Part>& part) {
  if (!pass.training || rate == 0) return x;
  const bool placed = pass.time.total > 0;
  const Ranges rows = !placed ? Ranges() : (part ? pass.time.inside() : pass.time.outside());
  return dropout(x,
                 rate,
                 pass.random,
                 {.outer_begin = pass.first_stream,
                  .middle_total = placed ? pass.time.total : x.shape()[1],
                  .inner_begin = part ? part->begin : 0,
                  .inner_total = part ? part->total : x.shape().width(),
                  .middle_ranges = rows});
}

FeedForward::FeedForward(const Scope& scope, const Options& options)
    : region_(scope.parameters().mesh().tensor),
      hidden_(scope.part(options.hidden)),
      activation_(options.activation),
      dropout_(options.dropout),
      in_(scope.child("in"),
          {.in = options.width,
           .out = options.hidden,
           .split = Split::columns,
           .initial = options.initial}),
      out_(scope.child("out"),
           {.in = options.hidden,
            .out = options.width,
            .split = Split::rows,
            .initial = options.initial_out ? options.initial_out : options.initial}) {}

Variable FeedForward::operator()(const Variable& x, const Pass& pass) const {
  const bool fused = activation_ == Activation::relu;
  Variable hidden = in_(region_.enter(x, pass.time), fused ? Activation::relu : Activation::none);
  if (!fused) hidden = activate(activation_, hidden);
  return out_(drop(hidden, dropout_, pass.child("hidden"), hidden_), pass.time);
}

}  // namespace longspan
