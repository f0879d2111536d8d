// The checkpoints that a run saves: beside the training, or while it waits.
#pragma once

#include <future>
#include <optional>

#include "checkpoints/background_save.h"
#include "framework/train/log.h"
#include "framework/train/run_options.h"
#include "framework/train/stopwatch.h"

namespace longspan {

// At most one save is under way; the next one waits for it. Each is told in the log with the time
// that training waited for it.
class CheckpointSaver {
 public:
  // `world` and `log` outlive it. `local_ranks`: those that share this machine's memory.
  CheckpointSaver(const CheckpointOptions& options,
                  const std::filesystem::path& directory,
                  const Communicator& world,
                  int local_ranks,
                  const Log& log);

  // Collective, as are `save_beside` and `finish`; they throw Failure on every rank when what was
  // to be saved was not. Returns when it is saved.
  void save(const CheckpointInfo& info, const TrainingState& state);
  // Removes all but the newest checkpoints, once what was saved last has shown to be good for them.
  void remove_older();
  // Starts a save. The same as `save` without checkpoint.background, for the first one of a
  // directory, and where a machine has no memory for a copy. The state's elements must not change
  // before `wait_for_copy` has returned.
  void save_beside(const CheckpointInfo& info, TrainingState state);
  void wait_for_copy();
  bool under_way() const { return beside_.has_value(); }
  // Whether this rank still writes.
  bool writing() const { return beside_ && !beside_->written(); }
  // Returns when what was under way is saved.
  void finish();

  // The step of the last save that was started; -1: none.
  std::int64_t step() const { return step_; }
  void set_step(std::int64_t step) { step_ = step; }

 private:
  void begin();
  bool copy_fits(const TrainingState& state);
  void tell(const std::filesystem::path& path, double waited);

  CheckpointOptions options_;
  std::filesystem::path directory_;
  const Communicator& world_;
  int local_ranks_;
  const Log& log_;
  std::optional<bool> copy_fits_;
  std::optional<BackgroundSave> beside_;
  Stopwatch since_begin_;
  std::future<void> removal_;  // of older checkpoints
  bool has_older_ = false;     // that `remove_older` may remove
  double waited_ = 0;          // seconds, by the training, for what is under way
  std::int64_t step_ = -1;
};

}  // namespace longspan
