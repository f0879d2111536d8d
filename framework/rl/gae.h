// Generalized advantage estimation.
#pragma once

#include <span>
#include <vector>

namespace longspan {

// The steps of a rollout in one environment.
struct Trajectory {
  std::span<const double> reward;
  std::span<const double> value;       // value estimate before the action
  std::span<const double> next_value;  // value estimate after the action: 0 if the episode has
                                       // terminated; of its last observation if it was truncated
  std::span<const bool> ends;          // the episode has terminated or was truncated
};

// Returns the generalized advantages (Schulman et al. 2016, equation 16), cut at episode ends:
//   delta_t = reward_t + discount next_value_t - value_t,
//   A_t = delta_t + discount lambda A_{t+1}, without the second term if step t ends an episode.
std::vector<double> gae(const Trajectory& experience, double discount, double lambda);

}  // namespace longspan
