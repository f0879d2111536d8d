// What a model does in environments, as batches to learn from: proximal policy optimization
// (Schulman et al. 2017) with the memory of GTrXL (Parisotto et al. 2019).
#pragma once

#include "framework/data/rollout_options.h"
#include "framework/data/source.h"
#include "framework/rl/step_reader.h"
#include "framework/rl/vector_env.h"

namespace longspan {

struct RolloutSetting {
  LivesSetting lives;
  std::int64_t environments = 1;  // over all data ranks
  std::int64_t segment = 1;
  RolloutOptions options = {};
  // Environments begin in the middle of their first episode, each elsewhere.
  bool staggered = false;
};

// A rollout is `segment` steps of each environment, by the model as it is then; epochs x
// minibatches batches are made of it before the next. Minibatch m has the environments e of all
// with e modulo minibatches = m, in their order. Each batch says what its rows carried when the
// rollout began: it may be of weights that were learnt since (Batch::carried).
//
// Fields, [rows, segment] each: `tokens`, `previous_action`, `reward`, what was read (Lives);
// `actions`, `log_probabilities`, `advantages`, of mean 0 and deviation 1 over all environments and
// steps of the rollout, and `returns`; `episodes`, counted from 0 in the rollout, and `earlier`
// [rows]. Counts: `tokens`, the actions, and `rows`.
//
// All is collective over the model's mesh.
class RolloutSource : public BatchSource {
 public:
  // The model is to be there as long as this. Throws ConfigurationError where the environments do
  // not divide into the minibatches of the data ranks.
  RolloutSource(const RolloutSetting& setting, const Model& model);

  Batch next() override;
  // [environments of this rank, n] i64.
  Tensor cursors() const override;
  CursorRows cursor_rows() const override;
  void restore(const Tensor& cursors) override;
  void save_state(TrainingState& state) const override;
  void load_state(const Checkpoint& checkpoint) override;
  // How many episodes have ended, and of the last one of each environment that has ended one what
  // it was rewarded with, and how many of them in percent came to what is wanted.
  std::vector<std::pair<std::string, double>> metric_values() const override;

 private:
  // The last episode of a row that has ended.
  struct Ended {
    double reward = 0;
    bool succeeded = false;
  };
  struct Recording;

  void collect();
  void record_step(std::int64_t step, Recording& recording);
  void compute_advantages(const Recording& recording);
  void normalise(const Tensor& advantages) const;
  void check_compatible(const Checkpoint& checkpoint) const;
  Fields rows_chosen(const std::vector<std::int64_t>& rows) const;
  std::int64_t batches() const { return setting_.options.epochs * setting_.options.minibatches; }
  std::int64_t columns() const;
  bool is_owner() const;

  RolloutSetting setting_;
  const Model* model_;
  VectorEnv lives_;
  IncrementalReader reader_;
  std::vector<Ended> ended_;
  std::int64_t made_ = 0;      // batches of the rollout; 0: it is still to be made
  RecurrentState begun_ = {};  // what rows carried when it began
  Fields fields_ = {};         // of it
};

}  // namespace longspan
