// Saves a run's checkpoints, in the background or while training waits.
#pragma once

#include <functional>
#include <future>
#include <optional>

#include "checkpoints/background_save.h"
#include "framework/config/run_options.h"
#include "framework/core/span.h"
#include "framework/training_loop/best_step.h"
#include "framework/training_loop/log.h"

namespace longspan {

// Runs at most one save at a time; the next save waits for it. Logs each save with the time that
// training waited for it. Saves only states with finite loss and gradient, as training cannot
// continue from other weights.
class CheckpointSaver {
 public:
  // Loss of the state to save, or NaN if its gradient is not finite. Called on all ranks.
  using Loss = std::function<double()>;

  // `world`, `log` and `timeline` must outlive the saver. `timeline` receives the spans of its
  // threads. `local_ranks`: number of ranks that share this machine's memory.
  CheckpointSaver(const CheckpointOptions& options,
                  const std::filesystem::path& directory,
                  const Communicator& world,
                  int local_ranks,
                  const Log& log,
                  Timeline* timeline = nullptr);

  // Saves a state whose loss is finite. Otherwise logs a warning and returns false. Collective, as
  // are `save_async`, `confirm` and `finish`. These throw Failure on every rank if the state was
  // not saved.
  bool save(const CheckpointInfo& info, const TrainingState& state, const Loss& loss);
  // Returns whether `remove_older` has anything to do.
  bool has_older() const { return has_older_; }
  // Removes all but the newest checkpoints and the best one according to the last checkpoint. Call
  // it once the last save has shown that its state is good.
  void remove_older();
  // Starts a save. Equivalent to `save` without checkpoint.async_save, for the first checkpoint of
  // a directory, and if a machine lacks memory for a copy. The state's elements must not change
  // before `wait_for_copy` has returned.
  bool save_async(const CheckpointInfo& info, TrainingState state, const Loss& loss);
  // Receives the loss of each step, NaN if the gradient is not finite. The first loss after a save
  // was started belongs to the saved state. If it is not finite, abandons the save, logs a warning
  // and returns false.
  bool confirm(double loss);
  void wait_for_copy();
  bool under_way() const { return background_.has_value(); }
  bool awaits_loss() const { return background_ && !judged_; }
  // Returns whether this rank is still writing.
  bool writing() const { return background_ && !background_->written(); }
  // Returns when the confirmed save in progress is complete.
  void finish();

  // Step of the last save that was started and not abandoned, or -1.
  std::int64_t step() const { return step_; }
  // Records that a run resumes from `step` of the directory, whose best step is `best`.
  // `remove_older` may then remove checkpoints that the previous process left.
  void resume_from(std::int64_t step, std::optional<std::int64_t> best);

 private:
  void begin();
  void abandon();
  void warn_not_saved(std::int64_t step) const;
  bool copy_fits(const TrainingState& state);
  // `seconds`: duration of the save; `waited`: the part of it for which training was blocked.
  void tell(const std::filesystem::path& path, double seconds, double waited);
  std::optional<std::int64_t> best_of(const TrainingState& state) const;

  CheckpointOptions options_;
  std::filesystem::path directory_;
  const Communicator& world_;
  int local_ranks_;
  const Log& log_;
  Timeline* timeline_;
  std::optional<bool> copy_fits_;
  std::optional<BackgroundSave> background_;
  bool judged_ = false;            // the save in progress
  std::int64_t step_before_ = -1;  // of the previous save
  Stopwatch since_begin_;
  std::future<void> removal_;  // of older checkpoints
  bool has_older_ = false;     // `remove_older` has something to remove
  double waited_ = 0;          // seconds that training waited for the save in progress
  std::int64_t step_ = -1;
  std::int64_t last_saved_step_ = -1;            // of the last completed save
  std::optional<std::int64_t> best_;             // according to the last save, even if in progress
  std::optional<std::int64_t> last_saved_best_;  // according to the last completed save
};

}  // namespace longspan
