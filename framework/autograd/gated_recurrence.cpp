#include "framework/autograd/gated_recurrence.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/autograd/attention.h"
#include "framework/autograd/ops.h"
#include "framework/kernels/attention/gated_recurrence.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/short_convolution.h"

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

namespace {

// Returns x after the `rows` rows before it, zeros at the start of a sequence.
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

}  // namespace

Variable short_convolution(const Variable& x,
                           const Variable& weight,
                           const Variable& bias,
                           const Tensor& document_position,
                           bool silu,
                           const ChunkBoundaries& state) {
  const Variable rows = with_rows_before(x, weight.shape()[1] - 1, state);
  ShortConvolution call = {.x = rows.value(),
                           .weight = weight.value(),
                           .bias = bias.value(),
                           .document_position = document_position,
                           .silu = silu};
  Tensor y = x.value().empty_like(MemoryTag::activations);
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

Variable decay_gates(const Variable& x, const Variable& log_rate) {
  const DecayGate call = {.x = x.value(), .log_rate = log_rate.value(), .g = {}};
  const DType sums = accumulator_of(x.value().dtype());
  Tensor g = Tensor::empty(x.shape(), sums, x.value().device());
  on(g.device(),
     [&](auto backend) { decay_gate(backend, {.x = call.x, .log_rate = call.log_rate, .g = g}); });
  return record(std::move(g), {x, log_rate}, [call, sums](BackwardContext& gradients) {
    const Device& device = call.x.device();
    const Tensor dx = call.x.empty_like();
    const Tensor terms = Tensor::empty(
        {call.x.shape().rows(), call.log_rate.elements()}, sums, device, MemoryTag::workspace);
    on(device, [&](auto backend) {
      decay_gate_backward(backend,
                          {.forward = call, .dg = gradients.output(), .dx = dx, .drate = terms});
    });
    if (gradients.needs_gradient(0)) gradients.set(0, dx);
    if (!gradients.needs_gradient(1)) return;
    const Tensor drate = gradients.accumulate_target(1);
    on(device, [&](auto backend) { add_column_sums(backend, terms, drate); });
  });
}

}  // namespace longspan
