#include "framework/autograd/policy.h"

namespace longspan {

Variable policy_losses(PolicyLossKind function,
                       const Variable& x,
                       const PolicyTargets& results,
                       double clip) {
  const Shape& shape = x.shape();
  const Shape rows = {shape.rows()};
  const auto by_row = [&](const Tensor& found) {
    return found.defined() ? found.reshape(rows) : Tensor();
  };
  PolicyLoss score = {.function = function,
                      .x = x.value().reshape({shape.rows(), shape.width()}),
                      .action = by_row(results.action),
                      .before = by_row(results.before),
                      .advantage = by_row(results.advantage),
                      .wanted = by_row(results.wanted),
                      .clip = clip};
  const Tensor y = Tensor::empty(rows, score.x.dtype(), score.x.device());
  score.y = y;
  on(y.device(), [&](auto backend) { policy_loss(backend, score); });
  score.y = Tensor();
  return record(y, {x}, [score, shape](BackwardContext& gradients) {
    const PolicyScoreGradient gradient = {
        .forward = score, .dy = gradients.output(), .dx = score.x.empty_like()};
    on(score.x.device(), [&](auto backend) { policy_score_backward(backend, gradient); });
    gradients.set(0, gradient.dx.reshape(shape));
  });
}

}  // namespace longspan
