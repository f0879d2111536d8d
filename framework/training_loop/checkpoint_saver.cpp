#include "framework/training_loop/checkpoint_saver.h"

#include <cmath>
#include <utility>

#include "framework/core/format.h"
#include "framework/planning/machine.h"

namespace longspan {

CheckpointSaver::CheckpointSaver(const CheckpointOptions& options,
                                 const std::filesystem::path& directory,
                                 const Communicator& world,
                                 int local_ranks,
                                 const Log& log,
                                 Timeline* timeline)
    : options_(options),
      directory_(directory),
      world_(world),
      local_ranks_(local_ranks),
      log_(log),
      timeline_(timeline) {}

void CheckpointSaver::begin() {
  finish();
  if (removal_.valid()) removal_.get();
  since_begin_ = {};
}

bool CheckpointSaver::save(const CheckpointInfo& info,
                           const TrainingState& state,
                           const Loss& loss) {
  begin();
  if (!std::isfinite(loss())) {
    warn_not_saved(info.step);
    return false;
  }
  since_begin_ = {};  // the loss may have needed a step
  const std::filesystem::path path = save_checkpoint(directory_, info, state, world_);
  step_ = info.step;
  best_ = best_of(state);
  const double seconds = since_begin_.seconds();
  tell(path, seconds, seconds);
  return true;
}

bool CheckpointSaver::save_async(const CheckpointInfo& info,
                                 TrainingState state,
                                 const Loss& loss) {
  // The first save of a directory blocks, so that anything that prevents saving is found at once.
  // Metrics past that step without a checkpoint then mean that a checkpoint was lost.
  const bool is_first = step_ < 0;
  if (!options_.background || is_first || !copy_fits(state)) return save(info, state, loss);
  begin();
  best_ = best_of(state);
  background_.emplace(directory_, info, std::move(state), world_, timeline_);
  judged_ = false;
  step_before_ = std::exchange(step_, info.step);
  waited_ = since_begin_.seconds();
  return true;
}

bool CheckpointSaver::confirm(double loss) {
  if (!background_ || judged_) return true;
  judged_ = std::isfinite(loss);
  if (judged_) return true;
  warn_not_saved(step_);
  abandon();
  return false;
}

void CheckpointSaver::warn_not_saved(std::int64_t step) const {
  log_.warning("Checkpoint of step {} discarded: its weights give a non-finite loss or gradient",
               step);
}

// The first rank removes what all ranks write, once all have stopped.
void CheckpointSaver::abandon() {
  if (world_.rank() != 0) background_.reset();
  world_.barrier();
  background_.reset();
  step_ = step_before_;
}

// Checked once: later copies reuse the memory of the first.
bool CheckpointSaver::copy_fits(const TrainingState& state) {
  if (copy_fits_) return *copy_fits_;
  double bytes = 0;
  for (const StateTensor& piece : state.tensors)
    if (piece.owned) bytes += static_cast<double>(piece.tensor.byte_size());
  const double there = memory_of_rank(local_ranks_);
  const double left = there == 0 ? 0 : there - bytes;
  copy_fits_ = world_.all_reduce(left, Reduction::minimum) >= 0;
  if (!*copy_fits_)
    log_.warning(
        "Not enough memory on some rank to copy the checkpoint ({} on the first): "
        "training blocks during each save",
        format_bytes(bytes));
  return *copy_fits_;
}

void CheckpointSaver::wait_for_copy() {
  if (!background_) return;
  const Stopwatch waited;
  background_->wait_for_copy();
  waited_ += waited.seconds();
}

void CheckpointSaver::finish() {
  if (!background_) return;
  require(judged_, "cannot finish the save of step {} before its loss is known", step_);
  const Stopwatch waited;
  const std::filesystem::path path = background_->commit();
  background_.reset();
  tell(path, since_begin_.seconds(), waited_ + waited.seconds());
}

void CheckpointSaver::tell(const std::filesystem::path& path, double seconds, double waited) {
  const std::string took = fmt::format("{:.3f} s", seconds),
                    blocked = fmt::format("{:.3f} s", waited);
  log_.info("Saved {} in {}{}",
            path.string(),
            took,
            blocked == took ? "" : fmt::format(" (training blocked for {})", blocked));
  has_older_ = true;
  last_saved_step_ = step_;
  last_saved_best_ = best_;
}

std::optional<std::int64_t> CheckpointSaver::best_of(const TrainingState& state) const {
  const auto best = best_step(state.scalars);
  return best ? std::optional(best->step) : std::nullopt;
}

void CheckpointSaver::resume_from(std::int64_t step, std::optional<std::int64_t> best) {
  step_ = last_saved_step_ = step;
  best_ = last_saved_best_ = best;
  has_older_ = true;
}

void CheckpointSaver::remove_older() {
  if (!std::exchange(has_older_, false) || world_.rank() != 0) return;
  if (removal_.valid()) removal_.get();
  // Removing large files takes time.
  removal_ = std::async(std::launch::async,
                        [directory = directory_,
                         step = last_saved_step_,
                         best = last_saved_best_,
                         keep = static_cast<int>(options_.keep_latest),
                         log = log_] {
                          try {
                            remove_old_checkpoints(directory, step, keep, best);
                          } catch (const std::exception& error) {
                            log.warning("Older checkpoints not removed: {}", error.what());
                          }
                        });
}

}  // namespace longspan
