#include "framework/autograd/dtypes.h"
#include "framework/autograd/ops.h"
#include "framework/core/dispatch.h"
#include "framework/core/error.h"

namespace longspan {

ActStepWeights act_step_weights(const Variable& logits,
                                const Variable& sums,
                                const Variable& costs,
                                const Tensor& now) {
  const HaltingWeights call = {.logits = logits.value(),
                               .sums = sums.value(),
                               .costs = costs.value(),
                               .now = now,
                               .weights = logits.value().empty_like(),
                               .next_sums = logits.value().empty_like(),
                               .next_costs = logits.value().empty_like()};
  on(now.device(), [&](auto backend) { halting_weights(backend, call); });
  const std::vector<Variable> outputs =
      record({call.weights, call.next_sums, call.next_costs},
             {logits, sums, costs},
             [logits = logits.value(), now](BackwardContext& gradients) {
               HaltingWeightsGradient back = {.logits = logits,
                                              .now = now,
                                              .dweights = {},
                                              .dnext_sums = {},
                                              .dnext_costs = {},
                                              .dlogits = logits.empty_like(),
                                              .dsums = logits.empty_like()};
               if (gradients.has_output(0)) back.dweights = gradients.output(0);
               if (gradients.has_output(1)) back.dnext_sums = gradients.output(1);
               if (gradients.has_output(2)) back.dnext_costs = gradients.output(2);
               on(now.device(), [&](auto backend) { halting_weights_backward(backend, back); });
               if (gradients.needs_gradient(0)) gradients.set(0, back.dlogits);
               if (gradients.needs_gradient(1)) gradients.set(1, back.dsums);
               if (gradients.needs_gradient(2) && back.dnext_costs.defined())
                 gradients.set(2, back.dnext_costs);
             });
  return {outputs[0], outputs[1], outputs[2]};
}

Variable accumulate_states(const Variable& x,
                           const Variable& weights,
                           const Variable& before,
                           StateAccumulation join) {
  require(!before.defined() || before.shape() == x.shape(),
          "cannot join states of shape {} to an output of shape {}",
          x.shape(),
          before.defined() ? before.shape() : Shape());
  Tensor y = empty_accumulator(x.value(), x.shape());
  on(y.device(), [&](auto backend) {
    accumulate_states(backend,
                      {.x = x.value(),
                       .weights = weights.value(),
                       .before = before.value(),
                       .y = y,
                       .join = join});
  });
  const bool interpolates = join == StateAccumulation::interpolate && before.defined();
  return record(std::move(y),
                {x, weights, before},
                [x = x.value(),
                 weights = weights.value(),
                 kept = interpolates ? before.value() : Tensor(),
                 join](BackwardContext& gradients) {
                  const Tensor& dy = gradients.output();
                  JoinRowsGradient back = {.x = x,
                                           .weights = weights,
                                           .before = kept,
                                           .dy = dy,
                                           .dx = {},
                                           .dweights = {},
                                           .dbefore = {},
                                           .join = join};
                  if (gradients.needs_gradient(0)) back.dx = x.empty_like();
                  if (gradients.needs_gradient(1)) back.dweights = weights.empty_like();
                  if (gradients.needs_gradient(2) && kept.defined())
                    back.dbefore = kept.empty_like();
                  on(dy.device(), [&](auto backend) { join_rows_backward(backend, back); });
                  if (gradients.needs_gradient(0)) gradients.set(0, back.dx);
                  if (gradients.needs_gradient(1)) gradients.set(1, back.dweights);
                  if (gradients.needs_gradient(2))
                    gradients.set(2, kept.defined() ? back.dbefore : dy);
                });
}

Variable select_rows(const Tensor& now, const Variable& moving, const Variable& resting) {
  Tensor y = moving.value().empty_like();
  on(y.device(), [&](auto backend) {
    select_rows(backend,
                {.now = now, .moving = moving.value(), .resting = resting.value(), .y = y});
  });
  return record(std::move(y), {moving, resting}, [now](BackwardContext& gradients) {
    const Tensor& dy = gradients.output();
    for (const std::size_t input : {0u, 1u}) {
      if (!gradients.needs_gradient(input)) continue;
      const Tensor part = dy.empty_like();
      on(dy.device(), [&](auto backend) {
        select_rows(backend,
                    {.now = now,
                     .moving = input == 0 ? dy : Tensor(),
                     .resting = input == 1 ? dy : Tensor(),
                     .y = part});
      });
      gradients.set(input, part);
    }
  });
}

}  // namespace longspan
