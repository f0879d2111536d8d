// Rollouts of a model in environments, as training batches: PPO (Schulman et al. 2017) with the
// recurrent state of GTrXL (Parisotto et al. 2019).
#pragma once

#include <span>
#include <vector>

#include "framework/data/batch.h"
#include "framework/data/rollout_options.h"
#include "framework/rl/vector_env.h"

namespace longspan {

struct RolloutContext {
  VectorEnvOptions lives;
  std::int64_t environments = 1;  // over all data ranks
  std::int64_t segment = 1;
  RolloutOptions options = {};
  // Environments start at different points of their first episode.
  bool staggered = false;
};

// A rollout is `segment` steps of each environment with the current model. It provides epochs x
// minibatches batches before the next rollout. Minibatch m has the environments e with e modulo
// minibatches = m, in order. Each batch has the recurrent state from the start of the rollout,
// which may stem from older weights (Batch::carried).
//
// Fields, [rows, segment] each: the inputs `tokens`, `previous_action` and `reward` (VectorEnv);
// `actions`, `log_probabilities` and `returns`; `advantages`, normalized to mean 0 and deviation 1
// over the rollout; `episodes`, counted from 0 in the rollout. Also `earlier` [rows]. Counts:
// `tokens`, the actions, and `rows`.
//
// All members are collective over the model's mesh.
class RolloutSource : public BatchSource {
 public:
  // The model must outlive it. Throws ConfigurationError if the environments are not divisible by
  // the minibatches of the data ranks.
  RolloutSource(const RolloutContext& setting, const Model& model);

  Batch next() override;
  // [environments of this rank, n] i64.
  Tensor cursors() const override;
  CursorRows cursor_rows() const override;
  void restore(const Tensor& cursors) override;
  void save_state(TrainingState& state) const override;
  void load_state(const Checkpoint& checkpoint) override;
  // Returns the number of finished episodes, and over the last finished episode of each environment
  // the reward and the success rate in percent.
  std::vector<std::pair<std::string, double>> metric_values() const override;

 private:
  // The last finished episode of a row.
  struct Ended {
    double reward = 0;
    bool succeeded = false;
  };
  struct Recording;

  void collect();
  void record_step(std::int64_t step, Recording& recording);
  void compute_advantages(const Recording& recording);
  void normalize(const Tensor& advantages) const;
  void check_compatible(const Checkpoint& checkpoint) const;
  Fields rows_chosen(const std::vector<std::int64_t>& rows) const;
  std::int64_t batches() const { return setting_.options.epochs * setting_.options.minibatches; }
  std::int64_t columns() const;
  bool is_owner() const;

  RolloutContext setting_;
  const Model* model_;
  VectorEnv lives_;
  IncrementalReader reader_;
  std::vector<Ended> ended_;
  std::int64_t made_ = 0;      // batches of the current rollout; 0: a new one is due
  RecurrentState begun_ = {};  // recurrent state at its start
  Fields fields_ = {};         // of the current rollout
};

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
