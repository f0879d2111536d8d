#include "framework/autograd/gated_recurrence.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/autograd/state_passing.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/gated_recurrence.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/recurrence_gates.h"
#include "framework/kernels/rows.h"

namespace longspan {
namespace {

// The kernels have a key head for each value head. Copies of shared ones are not stored.
Tensor repeated(const Tensor& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  if (shape[2] == heads) return x;
  const Tensor y = Tensor::empty(shape.with(2, heads), x.dtype(), x.device(), MemoryTag::workspace);
  on(x.device(), [&](auto backend) { repeat_kv(backend, x, y); });
  return y;
}
Tensor summed(const Tensor& dy, const Shape& shape) {
  if (dy.shape() == shape) return dy;
  const Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
  on(dx.device(), [&](auto backend) { sum_grouped_heads(backend, dy, dx); });
  return dx;
}

}  // namespace

Variable gated_recurrence(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const RecurrenceGates& gates,
                          const GatedRecurrenceOptions& options) {
  const std::int64_t heads = value.shape()[2];
  require(key.shape()[2] > 0 && heads % key.shape()[2] == 0,
          "gated recurrence: expected a divisor of {} value heads, found {} key heads",
          heads,
          key.shape()[2]);
  GatedRecurrence call = {.query = repeated(query.value(), heads),
                          .key = repeated(key.value(), heads),
                          .value = value.value(),
                          .scale = options.scale,
                          .log_decay = gates.log_decay.value(),
                          .beta = gates.beta.value(),
                          .a = gates.a.value(),
                          .b = gates.b.value(),
                          .document_position = options.document_position};
  const Device device = query.value().device();
  const Shape& shape = key.shape();
  const Shape state = {shape[0], heads, shape[3], value.shape()[3]};
  const DType sums = accumulator_of(query.value().dtype());
  call.out = Tensor::empty(value.shape(), value.value().dtype(), device);
  const std::vector<Variable> inputs = {
      query, key, value, gates.log_decay, gates.beta, gates.a, gates.b};
  const bool records = is_recording() && std::ranges::any_of(inputs, &Variable::requires_grad);
  std::optional<StatePassing> passing;
  if (options.shares) {
    passing.emplace(*options.shares, records);
    passing->forward(call, options.state);
  } else {
    call.initial = options.state.initial();
    if (options.state.needs_final())
      call.final_state = options.state.after->value =
          Tensor::empty(state, sums, device, MemoryTag::recurrent_state);
    if (records)
      call.checkpoints =
          Tensor::empty({call.segments(), state[0], state[1], state[2], state[3]}, sums, device);
    run_and_count(call);
  }
  Tensor out = call.out;
  call.out = {};
  call.final_state = {};
  call.query = query.value();
  call.key = key.value();
  return record(
      std::move(out), inputs, [call, passing, ends = options.state](BackwardContext& gradients) {
        const std::int64_t value_heads = call.value.shape()[2];
        GatedRecurrence forward = call;
        forward.query = repeated(call.query, value_heads);
        forward.key = repeated(call.key, value_heads);
        GatedRecurrenceGradient backward = {
            .forward = forward, .dout = gradients.output(), .dquery = {}, .dkey = {}, .dvalue = {}};
        const std::pair<Tensor*, const Tensor*> all[] = {{&backward.dquery, &forward.query},
                                                         {&backward.dkey, &forward.key},
                                                         {&backward.dvalue, &call.value},
                                                         {&backward.dlog_decay, &call.log_decay},
                                                         {&backward.dbeta, &call.beta},
                                                         {&backward.da, &call.a},
                                                         {&backward.db, &call.b}};
        for (std::size_t input = 0; input < std::size(all); ++input)
          if (gradients.needs_gradient(input)) *all[input].first = all[input].second->empty_like();
        if (passing) {
          passing->backward(backward, ends);
        } else {
          backward.dfinal = ends.final_gradient();
          if (ends.needs_initial_gradient())
            backward.dinitial = ends.before->gradient =
                ends.before->value.empty_like(MemoryTag::recurrent_state);
          run_and_count(backward);
        }
        backward.forward = {};
        forward.query = forward.key = {};
        if (backward.dquery.defined())
          backward.dquery = summed(backward.dquery, call.query.shape());
        if (backward.dkey.defined()) backward.dkey = summed(backward.dkey, call.key.shape());
        for (std::size_t input = 0; input < std::size(all); ++input)
          if (all[input].first->defined()) gradients.set(input, *all[input].first);
      });
}

Variable step_sizes(const Variable& x, double least, double most) {
  StepSize call = {.x = x.value(), .least = least, .most = most, .d = {}};
  Tensor d = Tensor::empty(x.shape(), accumulator_of(x.value().dtype()), x.value().device());
  call.d = d;
  on(d.device(), [&](auto backend) { step_size(backend, call); });
  call.d = {};
  return record(std::move(d), {x}, [call](BackwardContext& gradients) {
    const Tensor dx = call.x.empty_like();
    on(dx.device(), [&](auto backend) {
      step_size_backward(backend, {.forward = call, .dd = gradients.output(), .dx = dx});
    });
    gradients.set(0, dx);
  });
}

namespace {

// Sets gradient `input`, [n], to the sums of terms [rows, n].
void set_column_sums(BackwardContext& gradients, std::size_t input, const Tensor& terms) {
  const Tensor sums = gradients.accumulate_target(input);
  on(terms.device(), [&](auto backend) { add_column_sums(backend, terms, sums); });
}

}  // namespace

Variable decay_gates(const Variable& x, const Variable& log_rate, bool is_step) {
  DecayGate call = {.x = x.value(), .log_rate = log_rate.value(), .is_step = is_step, .g = {}};
  const DType sums = accumulator_of(x.value().dtype());
  Tensor g = Tensor::empty(x.shape(), sums, x.value().device());
  call.g = g;
  on(g.device(), [&](auto backend) { decay_gate(backend, call); });
  call.g = {};
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
    if (gradients.needs_gradient(1)) set_column_sums(gradients, 1, terms);
  });
}

Variable scale_heads(const Variable& x, const Variable& factor) {
  HeadScale call = {.x = x.value(), .factor = factor.value(), .y = {}};
  Tensor y = x.value().empty_like(MemoryTag::activations);
  call.y = y;
  on(y.device(), [&](auto backend) { head_scale(backend, call); });
  call.y = {};
  return record(std::move(y), {x, factor}, [call](BackwardContext& gradients) {
    const Shape& shape = call.x.shape();
    const Device& device = call.x.device();
    HeadScaleGradient backward = {.forward = call, .dy = gradients.output()};
    if (gradients.needs_gradient(0)) backward.dx = call.x.empty_like();
    const Shape& of_factor = call.factor.shape();
    const std::int64_t heads = shape[-2], rows = shape.elements() / shape.width() / heads;
    const bool for_all_rows = of_factor.dimensions() == 1;
    if (gradients.needs_gradient(1))
      backward.dfactor =
          for_all_rows
              ? Tensor::empty({rows, heads}, call.factor.dtype(), device, MemoryTag::workspace)
              : call.factor.empty_like();
    on(device, [&](auto backend) { head_scale_backward(backend, backward); });
    if (backward.dx.defined()) gradients.set(0, backward.dx);
    if (!backward.dfactor.defined()) return;
    if (for_all_rows)
      set_column_sums(gradients, 1, backward.dfactor);
    else
      gradients.set(1, backward.dfactor);
  });
}

Variable state_space(const StateSpaceInput& input,
                     const Variable& log_rate,
                     const Variable& skip,
                     const GatedRecurrenceOptions& options) {
  GatedRecurrenceOptions unscaled = options;
  unscaled.scale = 1;
  const Variable y = gated_recurrence(input.c,
                                      input.b,
                                      scale_heads(input.x, input.step),
                                      {.log_decay = decay_gates(input.step, log_rate, true)},
                                      unscaled);
  return add(y, scale_heads(input.x, skip));
}

}  // namespace longspan
