#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/shared/policy.h"

namespace longspan {

void policy_loss(Cuda cuda, const PolicyLoss& score) { policy_score_on(cuda, score); }
void policy_score_backward(Cuda cuda, const PolicyScoreGradient& gradient) {
  policy_score_backward_on(cuda, gradient);
}

}  // namespace longspan
