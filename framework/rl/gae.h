// How much better than expected each action was.
#pragma once

#include <span>
#include <vector>

namespace longspan {

// The steps of a rollout in one environment.
struct Trajectory {
  std::span<const double> reward;
  std::span<const double> value;       // that was expected before the action
  std::span<const double> next_value;  // after it: 0 where the episode has ended for good, and what
                                       // was expected of its last sight where time has ended it
  std::span<const bool> ends;          // the episode, either way
};

// Generalized advantages (Schulman et al. 2016, equation 16), cut at ends of episodes:
//   delta_t = reward_t + discount next_value_t - value_t,
//   A_t = delta_t + discount lambda A_{t+1}, the latter unless step t ends an episode.
std::vector<double> gae(const Trajectory& experience, double discount, double lambda);

}  // namespace longspan
