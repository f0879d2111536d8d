// Rows of environments that are acted in, episode after episode.
#pragma once

#include <vector>

#include "framework/data/batch.h"
#include "framework/environments/environment.h"

namespace longspan {

// An action, and what the policy and the value said when it was taken.
struct ActionSample {
  std::int64_t action = 0;
  double log_probability = 0;
  double value = 0;
  double entropy = 0;  // of the policy, in nats
};

// Where a row is. All of it is in a checkpoint.
struct EnvState {
  std::int64_t episode = 0;  // of the row
  std::int64_t steps = 0;    // of the episode so far
  std::int64_t actions = 0;  // of the row so far
  std::int64_t previous_action = no_action;
  double reward = 0;  // of that one
  double total = 0;   // of the episode so far
  WorldState now = {};
};

// Episode e of the global row r is made with episodes.child(r).child(e), and its action number i is
// drawn by number i of actions.child(r): so what happens does not know how rows are divided.
struct LivesSetting {
  Environment environment;
  StreamRange rows;
  Random episodes{0};
  Random actions{0};
  bool greedy = false;  // the likeliest action, of equal ones the first; none is drawn
  Device host;
};

class VectorEnv {
 public:
  explicit VectorEnv(const LivesSetting& setting);

  // What is read at this step, of each row: `tokens`, what is seen, `previous_action` and `reward`
  // [rows, 1], and `earlier` [rows] (see Batch).
  Fields observations() const;
  // scores: as policy_head's, of one position.
  std::vector<ActionSample> choose(const Tensor& scores) const;
  // Takes the actions. Rows whose episode has ended then stand at its end.
  std::vector<EnvStep> step(const std::vector<ActionSample>& choices);
  // Takes so many actions in a row that nobody chose, all equally likely: environments whose
  // episodes are all as long would otherwise end them at the same steps for ever.
  void random_steps(std::size_t row, std::int64_t steps);
  // Rows whose episode has ended begin the next one.
  void reset_done(const std::vector<EnvStep>& outcomes);

  const std::vector<EnvState>& rows() const { return lives_; }
  // Throws DataError for lives that cannot be.
  void restore(std::vector<EnvState> lives);
  const Environment& environment() const { return setting_.environment; }
  const StreamRange& range() const { return setting_.rows; }

 private:
  Random of_episode(std::size_t row) const;
  void begin(std::size_t row);
  EnvStep take(std::size_t row, std::int64_t action);

  LivesSetting setting_;
  std::vector<EnvState> lives_;
};

}  // namespace longspan
