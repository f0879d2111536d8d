#include "framework/training_loop/run_end.h"

#include "framework/core/format.h"
#include "framework/trainer/divergence.h"

namespace longspan {
namespace {

// The weights after the last step give no finite loss or gradient. A stopped run can resume from an
// earlier save.
ExitCode end_unsaved(const TrainingContext& run, const RunHistory& history, bool is_stopped) {
  const std::int64_t step = run.trainer.steps();
  const bool has_own = run.saver.step() >= 0;
  const std::int64_t before = has_own ? run.saver.step() : history.first_step;
  if (is_stopped && before > 0) {
    run.log.warning(
        "Stopped after step {} as requested, without saving it. Run the same command{} "
        "to resume from step {}. If this recurs, {}",
        step,
        has_own ? resume_instructions(run.life.resume_request) : "",
        before,
        divergence_advice(run.settings.training));
    return ExitCode::stopped;
  }
  throw DivergedError(
      "training diverged: the weights after step {} give a non-finite loss or "
      "gradient and are not saved; {}",
      step,
      divergence_advice(run.settings.training));
}

}  // namespace

ExitCode finish_run(const TrainingContext& run, const RunHistory& history, const RunEnd& end) {
  const Trainer& trainer = run.trainer;
  if (!end.is_saved) return end_unsaved(run, history, end.is_stopped);
  if (!end.end_of_data.empty())
    throw DataError("{}; stopped after step {}, which is saved", end.end_of_data, trainer.steps());
  if (end.is_stopped) {
    run.log.info("Stopped after step {} as requested. Run the same command{} to resume.",
                 trainer.steps(),
                 resume_instructions(run.life.resume_request));
    return ExitCode::stopped;
  }
  const bool had_nothing_to_do = history.first_step >= run.settings.training.steps;
  if (!had_nothing_to_do)
    run.log.info("Finished: {}, {}, {}",
                 pluralize(trainer.steps(), "step"),
                 pluralize(trainer.tokens(), "token"),
                 pluralize(trainer.skipped(), "skipped step"));
  return ExitCode::ok;
}

}  // namespace longspan
