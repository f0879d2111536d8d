#include "framework/training_loop/rollback.h"

#include <algorithm>

#include "framework/core/format.h"
#include "framework/trainer/divergence.h"
#include "framework/training_loop/run_saving.h"

namespace longspan {
namespace {

bool may_roll_back(const TrainingContext& run, const RunHistory& history) {
  return history.skipped.times < run.settings.training.skip_after_divergence;
}

// The save in progress is of an earlier state.
void end_what_is_under_way(TrainingContext& run,
                           const RunHistory& history,
                           const DivergedError& error) {
  try {
    wait_for_save(run);
  } catch (const Failure& failure) {
    // A rollback would use a missing checkpoint, and reach a save that fails again.
    if (may_roll_back(run, history)) {
      run.log.warning("{}; cannot roll back: a checkpoint could not be saved", error.what());
      throw;
    }
    run.log.error("{}", failure.what());
  }
  try {
    write_profile(run);
  } catch (const Failure& failure) {
    run.log.error("{}", failure.what());
  }
}

[[noreturn]] void end_diverged(const TrainingContext& run,
                               const RunHistory& history,
                               const DivergedError& error) {
  const std::int64_t allowed = run.settings.training.skip_after_divergence;
  // The first rank lists the saved steps: another node may see them later.
  const std::string clause = run.mesh.world.broadcast(
      run.is_root() ? resume_hint(run.directory.checkpoints(), run.life.resume_request) : "", 0);
  throw DivergedError("{}; {}{}",
                      error.what(),
                      allowed > 0 ? fmt::format("{} so far, training.max_rollbacks is {}; ",
                                                pluralize(history.skipped.times, "rollback"),
                                                allowed)
                                  : "",
                      clause);
}

}  // namespace

bool has_saved(const TrainingContext& run, const RunHistory& history) {
  return run.saver.step() > history.first_step;
}

Batch next_batch(TrainingContext& run, const RunHistory& history) {
  const ScopedTimer timed(run.speed.times().reading);
  const std::int64_t step = run.trainer.steps() + 1;
  const std::int64_t passed = history.skipped.before_step(step);
  if (passed == 0) return run.loader.next();
  const std::string place = run.loader.next().place;
  for (std::int64_t i = 1; i < passed; ++i) run.loader.next();
  run.log.info("Skipping {} before step {}, the first {}: training diverged on them",
               pluralize(passed, "batch", "batches"),
               step,
               place);
  Batch batch = run.loader.next();
  batch.resets_state = true;  // it does not continue its rows' recurrent state
  return batch;
}

void roll_back(TrainingContext& run,
               RunHistory& history,
               const DivergedError& error,
               std::int64_t last_update) {
  run.profiler.end_step();
  end_what_is_under_way(run, history, error);
  if (!may_roll_back(run, history)) end_diverged(run, history, error);
  run.progress.finish();
  check_directory(run);
  run.life.diverged = error.what();
  const std::int64_t last = run.trainer.steps();
  const bool has_own = has_saved(run, history);
  std::int64_t newest = has_own ? run.saver.step() : history.first_step;
  std::int64_t first = 0;
  try {
    newest = rollback_step(run.resuming(), newest, has_own);
    first = std::max(newest + 1, last_update);
    history.skipped.add(first, last);
    ++history.skipped.times;
    run.directory.write(run.directory.skipped().filename(), history.skipped.to_json());
  } catch (const Error&) {
    run.log.warning("{}; cannot roll back: the skipped batches could not be recorded",
                    error.what());
    throw;
  }
  run.log.warning(
      "{}; rolling back to step {} (rollback {} of {}, training.max_rollbacks), "
      "skipping the data of steps {} to {}",
      error.what(),
      newest,
      history.skipped.times,
      run.settings.training.skip_after_divergence,
      first,
      last);
}

}  // namespace longspan
