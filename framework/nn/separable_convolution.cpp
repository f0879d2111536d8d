#include "framework/nn/separable_convolution.h"

#include <cmath>

#include "framework/nn/position_convolution.h"

namespace longspan {
namespace {

bool is_bidirectional(const AttentionMask& mask) {
  return mask.rules.one_for_all() && mask.rules.of(0) == masks::everything();
}

}  // namespace

SeparableConvolution::SeparableConvolution(const Scope& scope, const Options& options)
    : mesh_(scope.parameters().mesh()),
      region_(mesh_.tensor),
      hidden_(scope.part(options.hidden)),
      activation_(options.activation),
      dropout_(options.dropout),
      in_(scope.child("in"),
          {.in = options.width,
           .out = options.hidden,
           .split = ParallelMode::columns,
           .bias = options.bias,
           .initial = options.initial}),
      out_(scope.child("out"),
           {.in = options.hidden,
            .out = options.width,
            .split = ParallelMode::rows,
            .bias = options.bias,
            .initial = options.initial_out ? options.initial_out : options.initial}) {
  require(options.kernel_sizes.size() == 2,
          "separable convolution: expected 2 kernel sizes, found {}",
          options.kernel_sizes.size());
  const auto initial = [&](std::size_t i) {
    return Initializer::uniform(1 / std::sqrt(static_cast<double>(options.kernel_sizes[i])));
  };
  depthwise_.push_back(scope.child("in").replicated_weight(
      "depthwise", {options.width, options.kernel_sizes[0]}, initial(0)));
  depthwise_.push_back(scope.child("out").weight(
      "depthwise", {options.hidden, options.kernel_sizes[1]}, initial(1), 0));
}

Variable SeparableConvolution::depthwise(const Variable& x,
                                         std::size_t index,
                                         const AttentionContext& context,
                                         const ForwardContext& pass) const {
  const Variable weight = cast(depthwise_[index]->variable, accumulator_of(x.value().dtype()));
  PositionConvolution options = {.document_position = context.mask.max_lookback,
                                 .length = context.mask.key_length};
  if (is_bidirectional(context.mask)) {
    options.padding = ConvolutionPadding::same;
  } else if (pass.kv_cache && weight.shape()[1] > 1) {
    LayerKVCache& layer = pass.kv_cache->layer(pass.random.place());
    layer.require_rows(x.shape()[0]);
    options.state = layer.boundaries(index);
  }
  return convolve_positions(x, weight, options, position_shards(pass, mesh_));
}

Variable SeparableConvolution::operator()(const Variable& x,
                                          const AttentionContext& context,
                                          const ForwardContext& pass) const {
  require(!pass.active_rows, "separable convolution: each position reads those around it");
  const Variable sums = depthwise(region_.enter(x, pass.time), 0, context, pass);
  const Variable hidden =
      drop(activate(activation_, in_(sums, pass)), dropout_, pass.child("hidden"), hidden_);
  return out_(depthwise(hidden, 1, context, pass), pass);
}

}  // namespace longspan
