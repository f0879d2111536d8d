// Rollouts of a policy in environments, for reinforcement learning.
#pragma once

#include <cstdint>

namespace longspan {

// data.global_batch_size is the number of environments, data.seq_length the steps of a rollout.
struct RolloutOptions {
  double discount = 0.99;        // discount factor per step
  double lambda = 0.95;          // lambda of generalized advantage estimation
  std::int64_t epochs = 4;       // passes over a rollout
  std::int64_t minibatches = 1;  // groups of environments, one training step each
  bool greedy = false;           // evaluation takes the most likely actions
};

}  // namespace longspan
