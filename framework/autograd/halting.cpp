#include "framework/autograd/halting.h"

#include "framework/autograd/dtypes.h"
#include "framework/core/error.h"

namespace longspan {

WeighedStep weigh_step(const Variable& logits,
                       const Variable& sums,
                       const Variable& costs,
                       const Tensor& now) {
  const HaltingWeights call = {.logits = logits.value(),
                               .sums = sums.value(),
                               .costs = costs.value(),
                               .now = now,
                               .weights = logits.value().like(),
                               .next_sums = logits.value().like(),
                               .next_costs = logits.value().like()};
  on(now.device(), [&](auto backend) { halting_weights(backend, call); });
  const std::vector<Variable> outputs =
      record({call.weights, call.next_sums, call.next_costs},
             {logits, sums, costs},
             [logits = logits.value(), now](Gradients& gradients) {
               HaltingWeightsGradient back = {.logits = logits,
                                              .now = now,
                                              .dweights = {},
                                              .dnext_sums = {},
                                              .dnext_costs = {},
                                              .dlogits = logits.like(),
                                              .dsums = logits.like()};
               if (gradients.has_output(0)) back.dweights = gradients.output(0);
               if (gradients.has_output(1)) back.dnext_sums = gradients.output(1);
               if (gradients.has_output(2)) back.dnext_costs = gradients.output(2);
               on(now.device(), [&](auto backend) { halting_weights_backward(backend, back); });
               if (gradients.wanted(0)) gradients.give(0, back.dlogits);
               if (gradients.wanted(1)) gradients.give(1, back.dsums);
               if (gradients.wanted(2) && back.dnext_costs.defined())
                 gradients.give(2, back.dnext_costs);
             });
  return {outputs[0], outputs[1], outputs[2]};
}

Variable join_rows(const Variable& x,
                   const Variable& weights,
                   const Variable& before,
                   StepJoin join) {
  require(!before.defined() || before.shape() == x.shape(),
          "states of shape {} cannot be joined to an output of shape {}",
          x.shape(),
          before.defined() ? before.shape() : Shape());
  Tensor y = empty_sums(x.value(), x.shape());
  on(y.device(), [&](auto backend) {
    join_rows(backend,
              {.x = x.value(),
               .weights = weights.value(),
               .before = before.value(),
               .y = y,
               .join = join});
  });
  const bool interpolates = join == StepJoin::interpolate && before.defined();
  return record(std::move(y),
                {x, weights, before},
                [x = x.value(),
                 weights = weights.value(),
                 kept = interpolates ? before.value() : Tensor(),
                 join](Gradients& gradients) {
                  const Tensor& dy = gradients.output();
                  JoinRowsGradient back = {.x = x,
                                           .weights = weights,
                                           .before = kept,
                                           .dy = dy,
                                           .dx = {},
                                           .dweights = {},
                                           .dbefore = {},
                                           .join = join};
                  if (gradients.wanted(0)) back.dx = x.like();
                  if (gradients.wanted(1)) back.dweights = weights.like();
                  if (gradients.wanted(2) && kept.defined()) back.dbefore = kept.like();
                  on(dy.device(), [&](auto backend) { join_rows_backward(backend, back); });
                  if (gradients.wanted(0)) gradients.give(0, back.dx);
                  if (gradients.wanted(1)) gradients.give(1, back.dweights);
                  if (gradients.wanted(2)) gradients.give(2, kept.defined() ? back.dbefore : dy);
                });
}

Variable choose_rows(const Tensor& now, const Variable& moving, const Variable& resting) {
  Tensor y = moving.value().like();
  on(y.device(), [&](auto backend) {
    choose_rows(backend,
                {.now = now, .moving = moving.value(), .resting = resting.value(), .y = y});
  });
  return record(std::move(y), {moving, resting}, [now](Gradients& gradients) {
    const Tensor& dy = gradients.output();
    for (const std::size_t input : {0u, 1u}) {
      if (!gradients.wanted(input)) continue;
      const Tensor part = dy.like();
      on(dy.device(), [&](auto backend) {
        choose_rows(backend,
                    {.now = now,
                     .moving = input == 0 ? dy : Tensor(),
                     .resting = input == 1 ? dy : Tensor(),
                     .y = part});
      });
      gradients.give(input, part);
    }
  });
}

}  // namespace longspan
