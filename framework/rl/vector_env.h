// Vectorized environments, which run episode after episode, and the forward passes that act in
// them.
#pragma once

#include <vector>

#include "framework/data/batch.h"
#include "framework/environments/environment.h"
#include "framework/modeling/model.h"

namespace longspan {

// An action, with the policy and value outputs at the time.
struct ActionSample {
  std::int64_t action = 0;
  double log_probability = 0;
  double value = 0;
  double entropy = 0;  // of the policy, in nats
};

// State of a row, all of it saved in a checkpoint.
struct EnvState {
  std::int64_t episode = 0;  // of the row
  std::int64_t steps = 0;    // of the episode so far
  std::int64_t actions = 0;  // of the row so far
  std::int64_t previous_action = no_action;
  double reward = 0;  // of the previous action
  double total = 0;   // of the episode so far
  WorldState now = {};
};

// Episode e of the global row r uses episodes.child(r).child(e); its action number i uses number i
// of actions.child(r). Results are therefore independent of the sharding of rows.
struct VectorEnvOptions {
  Environment environment;
  StreamRange rows;
  Random episodes{0};
  Random actions{0};
  bool greedy = false;  // most likely action, ties by lower id; nothing is sampled
  Device host;
};

class VectorEnv {
 public:
  explicit VectorEnv(const VectorEnvOptions& setting);

  // Returns the model input of this step: `tokens` (the observation), `previous_action` and
  // `reward` [rows, 1], and `earlier` [rows] (see Batch).
  Fields observations() const;
  // scores: as from policy_head, for one position.
  std::vector<ActionSample> choose(const Tensor& scores) const;
  // Performs the actions. Rows whose episode has ended remain at its end.
  std::vector<EnvStep> step(const std::vector<ActionSample>& choices);
  // Performs random, uniformly distributed actions in a row. They desynchronize environments with
  // episodes of equal length, which would otherwise always end at the same steps.
  void random_steps(std::size_t row, std::int64_t steps);
  // Starts the next episode of rows whose episode has ended.
  void reset_done(const std::vector<EnvStep>& outcomes);

  const std::vector<EnvState>& rows() const { return lives_; }
  // Throws DataError for invalid states.
  void restore(std::vector<EnvState> lives);
  const Environment& environment() const { return setting_.environment; }
  const StreamRange& range() const { return setting_.rows; }

 private:
  Random of_episode(std::size_t row) const;
  void begin(std::size_t row);
  EnvStep take(std::size_t row, std::int64_t action);

  VectorEnvOptions setting_;
  std::vector<EnvState> lives_;
};

// Incremental forward passes, one position at a time, equal to one pass over the segment.

// All members are collective over the ranks that share the rows' time or the weights. As in a
// single pass, positions attend to the memory at the segment's start and to earlier positions. The
// memory grows until the segment ends and is then truncated. Runs without dropout and records no
// gradient.
class IncrementalReader {
 public:
  // The model is used with its current weights at each step.
  IncrementalReader(const Model& model, std::int64_t segment) : model_(&model), segment_(segment) {}

  // Returns the scores of the next position of each row and advances. fields: [rows, 1].
  Tensor read(const Fields& fields);
  // Returns the scores of the next position without advancing.
  Tensor prefill(const Fields& fields) const;

  // Recurrent state at the start of a segment.
  const RecurrentState& carried() const { return carried_; }
  void begin(const RecurrentState& carried);

 private:
  Scores scores(const Fields& fields, std::int64_t extra_context) const;

  const Model* model_;
  std::int64_t segment_;
  std::int64_t position_ = 0;  // in the segment
  RecurrentState carried_ = {};
};

}  // namespace longspan
