#include "framework/nn/adaptive_computation_time.h"

#include <algorithm>

#include "framework/autograd/ops.h"
#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"

namespace longspan {
namespace {

// Returns which positions of this rank take the step after a decision. On a dry device decisions
// have no values, so no position halts.
std::vector<bool> still_running(const Tensor& decisions) {
  std::vector<bool> result(static_cast<std::size_t>(decisions.elements()), true);
  if (decisions.device().state().is_meta()) return result;
  const Tensor here = decisions.to_host();
  const auto decided = here.span<std::uint8_t>();
  for (std::size_t i = 0; i < decided.size(); ++i) result[i] = decided[i] == Halting::running;
  return result;
}

Tensor all_under_way(std::int64_t positions, const Device& device) {
  const Tensor decisions =
      Tensor::empty({positions}, DType::u8, device.host(), MemoryTag::workspace);
  if (!device.state().is_meta())
    std::ranges::fill(decisions.span<std::uint8_t>(), Halting::running);
  return copy_async(decisions, device);
}

}  // namespace

AdaptiveComputationTime::AdaptiveComputationTime(const Scope& scope,
                                                 std::int64_t width,
                                                 const ActOptions& options)
    : mesh_(scope.parameters().mesh()),
      options_(options),
      unit_(scope, {.in = width, .out = 1, .bias = false, .hidden = false}),
      bias_(scope.weight("bias", {1}, Initializer::constant(options.bias))) {}

Variable AdaptiveComputationTime::logits(const Variable& states) const {
  const Variable products = unit_(states);
  const Variable wide = cast(products, accumulator_of(products.value().dtype()));
  return reshape(add_bias(wide, bias_->variable), {states.shape().rows()});
}

Tensor AdaptiveComputationTime::decide(const Variable& logits,
                                       const Variable& sums,
                                       const Tensor& before,
                                       std::int64_t step,
                                       const ForwardContext& pass) const {
  return pass.child("halting").child(step).decide([&] {
    const Tensor now = before.empty_like();
    on(now.device(), [&](auto backend) {
      decide_halting(backend,
                     {.logits = logits.value(),
                      .sums = sums.value(),
                      .before = before,
                      .now = now,
                      .threshold = 1 - options_.slack,
                      .last = options_.remainder_at_end && step + 1 == options_.steps});
    });
    // Tensor ranks with the same positions may round differently, so one of them decides.
    if (!pass.time.divided()) mesh_.tensor.broadcast(now, 0);
    return now;
  });
}

ActResult AdaptiveComputationTime::operator()(const Variable& x,
                                              const RecurrentBlock& block,
                                              const Tensor& real,
                                              const ForwardContext& pass) const {
  using Output = ActOptions::Output;
  const Device device = x.value().device();
  const std::int64_t positions = x.shape().rows();
  Variable sums(Tensor::zeros({positions}, accumulator_of(x.value().dtype()), device));
  ActResult result = {.states = x, .costs = sums, .steps = {}};
  Tensor before = real.defined() ? real.reshape({positions}) : all_under_way(positions, device);
  const bool compacts =
      options_.compaction && options_.freeze && !pass.kv_cache && !pass.time.divided();
  std::vector<bool> takes = real.defined()
                                ? still_running(before)
                                : std::vector<bool>(static_cast<std::size_t>(positions), true);
  if (!pass.training) {
    result.each.resize(takes.size());
    result.time = pass.time;
  }
  Variable output;
  for (std::int64_t step = 0; step < options_.steps; ++step) {
    const Variable read = block.read(result.states, step);
    Variable next;
    Variable logit;
    if (options_.reads == ActOptions::Reads::before) logit = logits(read);
    next = block.run(
        read,
        step,
        compacts ? make_active_rows(takes, x.shape()[1], pass.time, pass.first_stream, device)
                 : nullptr);
    if (options_.reads == ActOptions::Reads::after) logit = logits(next);
    const Tensor now = decide(logit, sums, before, step, pass);
    const ActStepWeights weighed = act_step_weights(logit, sums, result.costs, now);
    sums = weighed.sums;
    result.costs = weighed.costs;
    result.steps.push_back({logit.value(), weighed.weights.value(), now});
    if (options_.output != Output::last)
      output = accumulate_states(next,
                                 weighed.weights,
                                 output,
                                 options_.output == Output::mean ? StateAccumulation::sum
                                                                 : StateAccumulation::interpolate);
    const bool some_rest = step > 0 || real.defined();
    result.states = options_.freeze && some_rest ? select_rows(now, next, result.states) : next;
    before = now;
    result.taken += std::ranges::count(takes, true);
    for (std::size_t i = 0; i < result.each.size(); ++i) result.each[i] += takes[i] ? 1 : 0;
    if (step + 1 == options_.steps) break;
    takes = still_running(now);
    const std::int64_t next_count = std::ranges::count(takes, true);
    if (pass.kv_cache) continue;
    if (mesh_.time.all_reduce(next_count, Reduction::sum) == 0) break;
  }
  if (output.defined()) result.states = cast(output, x.value().dtype());
  return result;
}

}  // namespace longspan
