#include "framework/rl/gae.h"

namespace longspan {

std::vector<double> gae(const Trajectory& experience, double discount, double lambda) {
  std::vector<double> advantages(experience.reward.size());
  double following = 0;
  for (std::size_t t = advantages.size(); t-- > 0;) {
    const double delta =
        experience.reward[t] + discount * experience.next_value[t] - experience.value[t];
    following = delta + (experience.ends[t] ? 0 : discount * lambda * following);
    advantages[t] = following;
  }
  return advantages;
}

}  // namespace longspan
