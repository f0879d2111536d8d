#include "framework/autograd/convolution.h"

#include <utility>

#include "framework/autograd/attention.h"
#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/short_convolution.h"

namespace longspan {

Variable depthwise_convolution(const Variable& rows,
                               const Variable& weight,
                               const Variable& bias,
                               const DepthwiseOptions& options) {
  ShortConvolution call = {.x = rows.value(),
                           .weight = weight.value(),
                           .bias = bias.value(),
                           .later = options.later,
                           .document_position = options.document_position,
                           .silu = options.silu};
  const Shape& shape = rows.shape();
  Tensor y = Tensor::empty(
      shape.with(1, shape[1] - weight.shape()[1] + 1), rows.value().dtype(), rows.value().device());
  call.y = y;
  on(y.device(), [&](auto backend) { short_convolution(backend, call); });
  call.y = {};
  return record(std::move(y), {rows, weight, bias}, [call](BackwardContext& gradients) {
    ShortConvolutionGradient backward = {.forward = call,
                                         .dy = gradients.output(),
                                         .dx = call.x.empty_like(),
                                         .dweight = call.weight.empty_like()};
    if (call.bias.defined()) backward.dbias = call.bias.empty_like();
    dispatch_or_meta(call.x.device(),
                     [&](auto backend) { short_convolution_backward(backend, backward); });
    if (gradients.needs_gradient(0)) gradients.set(0, backward.dx);
    if (gradients.needs_gradient(1)) gradients.set(1, backward.dweight);
    if (call.bias.defined() && gradients.needs_gradient(2)) gradients.set(2, backward.dbias);
  });
}

Variable with_rows_before(const Variable& x, std::int64_t rows, const ChunkBoundaries& state) {
  if (rows == 0) return x;
  Variable all = x;
  if (!state.before)
    all = concat_time(Variable(Tensor::zeros(x.shape().with(1, rows),
                                             x.value().dtype(),
                                             x.value().device(),
                                             MemoryTag::activations)),
                      x);
  if (!state.before && !state.after) return all;
  const Shape& shape = all.shape();
  const Variable joined =
      append_to_state(reshape(all, {shape[0], shape[1], 1, shape[2]}), state, rows);
  return reshape(joined, {shape[0], joined.shape()[1], shape[2]});
}

Variable short_convolution(const Variable& x,
                           const Variable& weight,
                           const Variable& bias,
                           const Tensor& document_position,
                           bool silu,
                           const ChunkBoundaries& state) {
  return depthwise_convolution(with_rows_before(x, weight.shape()[1] - 1, state),
                               weight,
                               bias,
                               {.document_position = document_position, .silu = silu});
}

Variable rows_at(const Variable& x, const std::vector<std::int64_t>& indices) {
  const std::int64_t batch = x.shape()[0], time = x.shape()[1];
  const std::int64_t count = std::ssize(indices) / batch;
  std::vector<std::int64_t> ids = indices;
  for (std::int64_t i = 0; i < std::ssize(ids); ++i)
    if (std::int64_t& id = ids[static_cast<std::size_t>(i)]; id >= 0) id += i / count * time;
  const Device& device = x.value().device();
  const Tensor rows = copy_async(
      Tensor::from<std::int64_t>(ids, {batch, count}, device.host(), MemoryTag::workspace), device);
  return embedding(reshape(x, {batch * time, x.shape()[2]}), rows, 0, 1);
}

}  // namespace longspan
