// The checkpoints that a run saves: beside the training, or while it waits.
#pragma once

#include <functional>
#include <future>
#include <optional>

#include "checkpoints/background_save.h"
#include "framework/config/run_options.h"
#include "framework/core/stopwatch.h"
#include "framework/training_loop/best_step.h"
#include "framework/training_loop/log.h"

namespace longspan {

// At most one save is under way; the next one waits for it. Each is told in the log with the time
// that training waited for it. What is saved has given a finite loss and gradient: nothing can go
// on from weights that do not.
class CheckpointSaver {
 public:
  // The loss of the state that is to be saved, no number where its gradient is none; asked of all
  // ranks alike.
  using Loss = std::function<double()>;

  // `world`, `log` and `timeline`, where the spans of its threads are written, outlive it.
  // `local_ranks`: those that share this machine's memory.
  CheckpointSaver(const CheckpointOptions& options,
                  const std::filesystem::path& directory,
                  const Communicator& world,
                  int local_ranks,
                  const Log& log,
                  Timeline* timeline = nullptr);

  // Collective, as are `save_async`, `judge` and `finish`; they throw Failure on every rank when
  // what was to be saved was not. Saves a state whose loss is finite; of another it says so in the
  // log, and returns false.
  bool save(const CheckpointInfo& info, const TrainingState& state, const Loss& loss);
  // Whether `remove_older` has anything to do.
  bool has_older() const { return has_older_; }
  // Removes all but the newest checkpoints and the one that the last one knows as the best, once
  // what was saved last has shown to be good for them.
  void remove_older();
  // Starts a save. The same as `save` without checkpoint.async_save, for the first one of a
  // directory, and where a machine has no memory for a copy. The state's elements must not change
  // before `wait_for_copy` has returned.
  bool save_async(const CheckpointInfo& info, TrainingState state, const Loss& loss);
  // With the loss of each step, which is no number where its gradient is none: the first one after
  // a save was started is that of its state. A save whose state has none is given up, told and
  // false.
  bool confirm(double loss);
  void wait_for_copy();
  bool under_way() const { return beside_.has_value(); }
  bool awaits_loss() const { return beside_ && !judged_; }
  // Whether this rank still writes.
  bool writing() const { return beside_ && !beside_->written(); }
  // Returns when what was under way, and is judged, is saved.
  void finish();

  // The step of the last save that was started and not given up; -1: none.
  std::int64_t step() const { return step_; }
  // A run resumes from that step of the directory, of which it knows that best one: `remove_older`
  // may remove what the run before left when it stopped.
  void resume_from(std::int64_t step, std::optional<std::int64_t> best);

 private:
  void begin();
  void give_up();
  void warn_not_saved(std::int64_t step) const;
  bool copy_fits(const TrainingState& state);
  void tell(const std::filesystem::path& path, double waited);
  std::optional<std::int64_t> best_of(const TrainingState& state) const;

  CheckpointOptions options_;
  std::filesystem::path directory_;
  const Communicator& world_;
  int local_ranks_;
  const Log& log_;
  Timeline* timeline_;
  std::optional<bool> copy_fits_;
  std::optional<BackgroundSave> beside_;
  bool judged_ = false;            // what is under way
  std::int64_t step_before_ = -1;  // of the save before it
  Stopwatch since_begin_;
  std::future<void> removal_;  // of older checkpoints
  bool has_older_ = false;     // that `remove_older` may remove
  double waited_ = 0;          // seconds, by the training, for what is under way
  std::int64_t step_ = -1;
  std::int64_t whole_step_ = -1;  // of the last save that is on the disk: what is under way is not
  std::optional<std::int64_t> best_;        // that the last save knows of, be it under way
  std::optional<std::int64_t> whole_best_;  // that the last one on the disk does
};

}  // namespace longspan
