// How a model acts in environments to learn from it, and how often it learns from what it did.
#pragma once

#include <cstdint>

namespace longspan {

// The environments are the rows of data.global_batch_size, the steps those of data.seq_length.
struct RolloutOptions {
  double discount = 0.99;        // of a reward for each step that it lies ahead
  double lambda = 0.95;          // of generalized advantages
  std::int64_t epochs = 4;       // times that a rollout is learnt from
  std::int64_t minibatches = 1;  // groups of environments, each a step of training
  bool greedy = false;           // in measurements the likeliest actions, none drawn
};

}  // namespace longspan
