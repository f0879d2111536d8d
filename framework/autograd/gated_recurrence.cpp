#include "framework/autograd/gated_recurrence.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/autograd/attention.h"
#include "framework/kernels/attention/gated_recurrence.h"

namespace longspan {
namespace {

void count(const Device& device, const RecurrenceFlops& flops) {
  if (!device.state().is_meta()) return;
  device.state().count_flops(flops.made);
  device.state().get_or_create<RedundantFlops>().flops += flops.made - flops.needed;
}

}  // namespace

Variable gated_recurrence(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const RecurrenceGates& gates,
                          const GatedRecurrenceOptions& options) {
  GatedRecurrence call = {.query = query.value(),
                          .key = key.value(),
                          .value = value.value(),
                          .scale = options.scale,
                          .log_decay = gates.log_decay.value(),
                          .beta = gates.beta.value(),
                          .a = gates.a.value(),
                          .b = gates.b.value(),
                          .document_position = options.document_position,
                          .initial = options.state.initial()};
  const Device device = query.value().device();
  const Shape& shape = key.shape();
  const Shape state = {shape[0], shape[2], shape[3], value.shape()[3]};
  const DType sums = accumulator_of(query.value().dtype());
  call.out = Tensor::empty(value.shape(), value.value().dtype(), device);
  if (options.state.needs_final())
    call.final_state = options.state.after->value =
        Tensor::empty(state, sums, device, MemoryTag::recurrent_state);
  const std::vector<Variable> inputs = {
      query, key, value, gates.log_decay, gates.beta, gates.a, gates.b};
  const bool records = is_recording() && std::ranges::any_of(inputs, &Variable::requires_grad);
  if (records)
    call.checkpoints =
        Tensor::empty({call.segments(), state[0], state[1], state[2], state[3]}, sums, device);
  dispatch_or_meta(device, [&](auto backend) { gated_recurrence(backend, call); });
  count(device, gated_recurrence_flops(call));
  Tensor out = call.out;
  call.out = {};
  call.final_state = {};
  return record(std::move(out), inputs, [call, ends = options.state](BackwardContext& gradients) {
    GatedRecurrenceGradient backward = {.forward = call,
                                        .dout = gradients.output(),
                                        .dfinal = ends.final_gradient(),
                                        .dquery = {},
                                        .dkey = {},
                                        .dvalue = {}};
    const std::pair<Tensor*, const Tensor*> all[] = {{&backward.dquery, &call.query},
                                                     {&backward.dkey, &call.key},
                                                     {&backward.dvalue, &call.value},
                                                     {&backward.dlog_decay, &call.log_decay},
                                                     {&backward.dbeta, &call.beta},
                                                     {&backward.da, &call.a},
                                                     {&backward.db, &call.b}};
    for (std::size_t input = 0; input < std::size(all); ++input)
      if (gradients.needs_gradient(input)) *all[input].first = all[input].second->empty_like();
    const Device& here = call.query.device();
    if (ends.before)
      backward.dinitial = ends.before->gradient =
          ends.before->value.empty_like(MemoryTag::recurrent_state);
    dispatch_or_meta(here, [&](auto backend) { gated_recurrence_backward(backend, backward); });
    count(here, gated_recurrence_backward_flops(call));
    for (std::size_t input = 0; input < std::size(all); ++input)
      if (all[input].first->defined()) gradients.set(input, *all[input].first);
  });
}

}  // namespace longspan
