#include "framework/nn/attention/delta_rule.h"

#include <cmath>

#include "framework/autograd/norms.h"
#include "framework/autograd/ops.h"
#include "framework/autograd/recompute.h"
#include "framework/nn/position_convolution.h"

namespace longspan {
namespace {

constexpr double length_epsilon = 1e-6;  // of the L2 norm, as in the authors' code

}  // namespace

Variable convolve_heads(const Variable& x,
                        const Variable& weight,
                        const Variable& bias,
                        const Tensor& document_position,
                        const ChunkBoundaries& state,
                        const std::optional<SequenceShards>& shares) {
  const Shape& shape = x.shape();
  const Variable rows = reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
  const PositionConvolution options = {
      .bias = bias, .silu = true, .document_position = document_position, .state = state};
  return reshape(convolve_positions(rows, weight, options, shares), shape);
}

Variable delta_rule(const DeltaRule& layer) {
  const auto convolved = [&](const Variable& x, std::size_t index) {
    const auto& [weight, state] = layer.convolutions[index];
    return convolve_heads(x, weight, {}, layer.document_position, state, layer.shares);
  };
  const auto unit = [&](const Variable& x, std::size_t index) {
    return l2_normalize(convolved(x, index), length_epsilon);
  };
  const Variable query = unit(layer.query, 0), key = unit(layer.key, 1);
  const double dim = static_cast<double>(layer.key.shape()[3]);
  return gated_recurrence(query,
                          key,
                          convolved(layer.value, 2),
                          layer.gates,
                          {.scale = 1 / std::sqrt(dim),
                           .document_position = layer.document_position,
                           .state = layer.state,
                           .shares = layer.shares});
}

Variable gated_head_norm(const Variable& y,
                         const Variable& gain,
                         double epsilon,
                         const Variable& gate) {
  return recompute(
      [epsilon](const std::vector<Variable>& in) {
        return gated(Activation::silu, in[2], rms_norm(in[0], in[1], epsilon));
      },
      {y, gain, gate});
}

}  // namespace longspan
