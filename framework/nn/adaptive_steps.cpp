#include "framework/nn/adaptive_steps.h"

#include <algorithm>

#include "framework/autograd/halting.h"
#include "framework/core/queued_copy.h"

namespace longspan {
namespace {

// Which positions of this rank take the step that follows a decision. What a dry device decides is
// not known: nothing halts.
std::vector<bool> going_on(const Tensor& decisions) {
  std::vector<bool> result(static_cast<std::size_t>(decisions.elements()), true);
  if (decisions.device().state().dry()) return result;
  const Tensor here = decisions.to_host();
  const auto decided = here.span<std::uint8_t>();
  for (std::size_t i = 0; i < decided.size(); ++i) result[i] = decided[i] == Halting::goes_on;
  return result;
}

Tensor all_under_way(std::int64_t positions, const Device& device) {
  const Tensor decisions =
      Tensor::empty({positions}, DType::u8, device.host(), MemoryTag::workspace);
  if (!device.state().dry()) std::ranges::fill(decisions.span<std::uint8_t>(), Halting::goes_on);
  return queued_to(decisions, device);
}

}  // namespace

AdaptiveSteps::AdaptiveSteps(const Scope& scope, std::int64_t width, const HaltingOptions& options)
    : mesh_(scope.parameters().mesh()),
      options_(options),
      unit_(scope, {.in = width, .out = 1, .bias = false, .hidden = false}),
      bias_(scope.weight("bias", {1}, Initial::constant(options.bias))) {}

Variable AdaptiveSteps::logits(const Variable& states) const {
  const Variable products = unit_(states);
  const Variable wide = cast(products, accumulator_of(products.value().dtype()));
  return reshape(add_bias(wide, bias_->variable), {states.shape().rows()});
}

Tensor AdaptiveSteps::decide(const Variable& logits,
                             const Variable& sums,
                             const Tensor& before,
                             std::int64_t step,
                             const Pass& pass) const {
  return pass.child("halting").child(step).decide([&] {
    const Tensor now = before.like();
    on(now.device(), [&](auto backend) {
      decide_halting(backend,
                     {.logits = logits.value(),
                      .sums = sums.value(),
                      .before = before,
                      .now = now,
                      .threshold = 1 - options_.slack,
                      .last = options_.remainder_at_end && step + 1 == options_.steps});
    });
    // Tensor ranks that hold the same positions may have rounded otherwise: one of them decides.
    if (!pass.time.divided()) mesh_.tensor.broadcast(now, 0);
    return now;
  });
}

Pondered AdaptiveSteps::operator()(const Variable& x,
                                   const StepBlock& block,
                                   const Tensor& real,
                                   const Pass& pass) const {
  using Output = HaltingOptions::Output;
  const Device device = x.value().device();
  const std::int64_t positions = x.shape().rows();
  Variable sums(Tensor::zeros({positions}, accumulator_of(x.value().dtype()), device));
  Pondered result = {.states = x, .costs = sums, .steps = {}};
  Tensor before = real.defined() ? real.reshape({positions}) : all_under_way(positions, device);
  const bool compacts =
      options_.compaction && options_.freeze && !pass.kept && !pass.time.divided();
  std::vector<bool> takes = real.defined()
                                ? going_on(before)
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
    if (options_.reads == HaltingOptions::Reads::before) logit = logits(read);
    next = block.run(
        read,
        step,
        compacts ? taken_rows(takes, x.shape()[1], pass.time, pass.first_stream, device) : nullptr);
    if (options_.reads == HaltingOptions::Reads::after) logit = logits(next);
    const Tensor now = decide(logit, sums, before, step, pass);
    const WeighedStep weighed = weigh_step(logit, sums, result.costs, now);
    sums = weighed.sums;
    result.costs = weighed.costs;
    result.steps.push_back({logit.value(), weighed.weights.value(), now});
    if (options_.output != Output::last)
      output = join_rows(next,
                         weighed.weights,
                         output,
                         options_.output == Output::mean ? StepJoin::sum : StepJoin::interpolate);
    const bool some_rest = step > 0 || real.defined();
    result.states = options_.freeze && some_rest ? choose_rows(now, next, result.states) : next;
    before = now;
    result.taken += std::ranges::count(takes, true);
    for (std::size_t i = 0; i < result.each.size(); ++i) result.each[i] += takes[i] ? 1 : 0;
    if (step + 1 == options_.steps) break;
    takes = going_on(now);
    const std::int64_t next_count = std::ranges::count(takes, true);
    if (pass.kept) continue;
    if (mesh_.time.all_reduce(next_count, Reduction::sum) == 0) break;
  }
  if (output.defined()) result.states = cast(output, x.value().dtype());
  return result;
}

}  // namespace longspan
