#include "framework/autograd/policy.h"

namespace longspan {

Variable policy_scores(PolicyFunction function,
                       const Variable& x,
                       const ActionResults& results,
                       double clip) {
  const Shape& shape = x.shape();
  const Shape rows = {shape.rows()};
  const auto by_row = [&](const Tensor& found) {
    return found.defined() ? found.reshape(rows) : Tensor();
  };
  PolicyScore score = {.function = function,
                       .x = x.value().reshape({shape.rows(), shape.width()}),
                       .action = by_row(results.action),
                       .before = by_row(results.before),
                       .advantage = by_row(results.advantage),
                       .wanted = by_row(results.wanted),
                       .clip = clip};
  const Tensor y = Tensor::empty(rows, score.x.dtype(), score.x.device());
  score.y = y;
  on(y.device(), [&](auto backend) { policy_score(backend, score); });
  score.y = Tensor();
  return record(y, {x}, [score, shape](Gradients& gradients) {
    const PolicyScoreGradient gradient = {
        .forward = score, .dy = gradients.output(), .dx = score.x.like()};
    on(score.x.device(), [&](auto backend) { policy_score_backward(backend, gradient); });
    gradients.give(0, gradient.dx.reshape(shape));
  });
}

}  // namespace longspan
