#include "framework/kernels/shared/policy.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {

void policy_loss(Cpu cpu, const PolicyLoss& score) { policy_score_on(cpu, score); }
void policy_score_backward(Cpu cpu, const PolicyScoreGradient& gradient) {
  policy_score_backward_on(cpu, gradient);
}

}  // namespace longspan
