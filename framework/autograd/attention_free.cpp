#include "framework/autograd/attention_free.h"

#include "framework/core/dispatch.h"
#include "framework/kernels/attention/attention_free.h"

namespace longspan {
namespace {

void count_mixing(const AttentionFree& call, double passes) {
  const Device& device = call.key.device();
  if (device.state().is_meta()) device.state().count_flops(passes * attention_free_flops(call));
}

}  // namespace

Variable attention_free(const Variable& key,
                        const Variable& value,
                        const Variable& bias,
                        const AttentionFreeOptions& options) {
  AttentionFree call = {.key = key.value(),
                        .value = value.value(),
                        .query_begin = options.query_begin,
                        .causal = options.causal,
                        .window = options.window,
                        .bias = bias.value(),
                        .banded = options.banded,
                        .max_lookback = options.max_lookback,
                        .hidden = options.hidden,
                        .initial = options.state.initial()};
  const Device device = call.key.device();
  const Shape& shape = key.shape();
  const Shape rows = shape.with(1, call.queries());
  const DType sums = accumulator_of(call.key.dtype());
  if (options.state.needs_final())
    options.state.after->value =
        Tensor::empty({shape[0], 3, shape[2]}, sums, device, MemoryTag::recurrent_state);
  if (options.state.after) call.final_state = options.state.after->value;
  Tensor out = Tensor::empty(rows, call.key.dtype(), device);
  call.out = out;
  call.log_sum = Tensor::empty(rows, sums, device);
  dispatch_or_meta(device, [&](auto backend) { attention_free(backend, call); });
  count_mixing(call, 1);
  return record(
      std::move(out), {key, value, bias}, [call, ends = options.state](BackwardContext& gradients) {
        AttentionFreeGradient backward = {.forward = call,
                                          .dout = gradients.output(),
                                          .dfinal = ends.final_gradient(),
                                          .dkey = call.key.empty_like(),
                                          .dvalue = call.value.empty_like()};
        if (gradients.needs_gradient(2)) backward.dbias = call.bias.empty_like();
        if (ends.before)
          backward.dinitial = ends.before->gradient =
              ends.before->value.empty_like(MemoryTag::recurrent_state);
        dispatch_or_meta(call.key.device(),
                         [&](auto backend) { attention_free_backward(backend, backward); });
        count_mixing(call, 2);
        if (gradients.needs_gradient(0)) gradients.set(0, backward.dkey);
        if (gradients.needs_gradient(1)) gradients.set(1, backward.dvalue);
        if (gradients.needs_gradient(2)) gradients.set(2, backward.dbias);
      });
}

}  // namespace longspan
