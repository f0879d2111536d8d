#include "framework/training_loop/run_phases.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include "framework/core/format.h"
#include "framework/core/span.h"
#include "framework/decoding/sampling.h"
#include "framework/tasks/labeled_task.h"
#include "framework/trainer/trainer.h"
#include "framework/training_loop/checkpoint_values.h"
#include "framework/training_loop/init_from.h"
#include "framework/training_loop/run_summary.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

// A best step that is not in this directory, as of another run, cannot be retained.
void resume_best(const TrainingContext& run,
                 std::optional<BestTracker>& best,
                 const Scalars& scalars) {
  const std::string& wanted = run.settings.checkpoint.keep_best;
  if (const auto before = best_step(scalars); before && before->figure != wanted)
    run.log.warning("Step {} (best {} so far) is no longer retained: checkpoint.best_metric is {}",
                    before->step,
                    before->figure,
                    wanted.empty() ? "not set" : wanted);
  if (!best) return;
  best->restore(scalars);
  if (!best->best()) return;
  const fs::path path = run.directory.checkpoints() / step_name(best->best()->step);
  std::error_code unused;
  const std::int64_t exists = run.is_root() && fs::is_directory(path, unused) ? 1 : 0;
  if (run.mesh.world.all_reduce(exists, Reduction::maximum) == 1) return;
  run.log.info("The best checkpoint by {} is not in {}; the next validation counts as the best",
               best->goal().figure,
               run.directory.checkpoints().string());
  best->forget();
}

void resume(TrainingContext& run,
            RunHistory& history,
            const Checkpoint& checkpoint,
            const fs::path& path) {
  check_resumable(run.resuming(), checkpoint, *run.task, run.loader.cursor_rows());
  restore(run, history, checkpoint);
  run.log.info("Resumed from {} at step {}", path.string(), run.trainer.steps());
  resume_best(run, history.best, checkpoint.scalars());
  // A named checkpoint may be in another directory. This one need not contain it, or not a valid
  // one.
  if (run.settings.checkpoint.resume != "auto") return;
  run.saver.resume_from(run.trainer.steps(), history.best_step());
  if (run.directory.follows_killed() && run.life.diverged.empty())
    run.log.warning(
        "The previous process of this run did not exit normally (killed, rank failure "
        "or lost host); recomputing from its newest checkpoint");
}

void log_config_differences(const TrainingContext& run, const Checkpoint& checkpoint) {
  if (const std::string& restored = run.loader.restore_warning(); !restored.empty())
    run.log.warning("{}", restored);
  warn_layout_change(run.log, checkpoint, run.layout());
  if (!run.settings.training.start_from.path.empty())
    run.log.info("training.init_from.path is ignored: the run resumes from a checkpoint");
}

// Returns the import scalars of the starting point.
Scalars restart(TrainingContext& run, const std::string& id) {
  const ResumeContext asking = run.resuming();
  archive_metrics(asking, id);
  const ReadProgress watch = progress_logger(asking, run.settings.training.start_from.path);
  Scalars of_data;
  run.task->save(of_data);
  const LabelSet labels = labels_of(of_data, run.settings.run.directory.text());
  return init_from(
      {run.settings, run.text, run.task->tokenizer(), labels, run.mesh.world, run.log, watch},
      run.trainer.model());
}

// `path` is empty, and there is no checkpoint, for a new run.
SkippedData skipped_data(const TrainingContext& run,
                         const std::string& id,
                         const fs::path& path,
                         const std::optional<Checkpoint>& checkpoint) {
  // After a rollback the run's own file is newer than its starting point.
  if (!run.life.diverged.empty()) return read_skipped_data(run.directory, run.mesh.world);
  const std::string saved =
      checkpoint ? checkpoint->scalars().get_or<std::string>(skipped_data_scalar, "") : "";
  return skipped_data_from(run.resuming(), path, saved, id);
}

RunHistory restore_or_initialize(TrainingContext& run) {
  const ResumeContext asking = run.resuming();
  const fs::path path = resolve_resume_checkpoint(asking).value_or("");
  std::optional<Checkpoint> checkpoint;
  if (!path.empty()) checkpoint = open_run_checkpoint(path, progress_logger(asking));
  RunHistory history = {.id = checkpoint ? checkpoint->info().run_id : new_run_id(run.mesh.world),
                        .best = best_so_far(run.settings)};
  if (checkpoint)
    resume(run, history, *checkpoint, path);
  else
    history.imported = restart(run, history.id);
  history.skipped = skipped_data(run, history.id, path, checkpoint);
  if (checkpoint) log_config_differences(run, *checkpoint);
  history.first_step = run.trainer.steps();
  return history;
}

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

RunHistory resume_or_start(TrainingContext& run) {
  RunHistory history = restore_or_initialize(run);
  if (history.skipped.times > 0)
    run.log.info("Skipping {}; {} so far ({})",
                 pluralize(history.skipped.batches(), "batch", "batches"),
                 pluralize(history.skipped.times, "rollback"),
                 run.directory.skipped().string());
  run.directory.write("config.yaml", run.text.configuration);
  run.tracker.begin({history.id,
                     history.first_step,
                     run.text.configuration,
                     run.text.compare(run.text.configuration).saved,
                     run.trainer.tokens()},
                    *run.task,
                    run.trainer.model(),
                    run.log);
  const double peak = run.speed.measure_peak();
  log_run_summary(run.log,
                  {run.settings,
                   run.text.warnings,
                   run.mesh,
                   run.device,
                   run.collectives,
                   run.trainer.model().parameters(),
                   *run.task,
                   run.threads,
                   peak});
  run.profiler.warn_missed_steps(history.first_step);
  return history;
}

namespace {

// All ranks have the same logits, so all skip samples that these do not yield.
void take_samples(TrainingContext& run) try {
  const Model& model = run.trainer.model();
  run.tracker.capture_images(model);
  if (const std::int64_t count = run.settings.metrics.samples; count > 0)
    run.tracker.take_texts(run.task->samples(model, count));
} catch (const InvalidLogits& error) {
  run.log.warning("No samples at step {}: {}", run.trainer.steps(), error.what());
}

}  // namespace

std::optional<Measurement> validate(TrainingContext& run) {
  const ScopedTimer timed(run.speed.times().validating);
  const Span span({.name = "validation"});
  const std::optional<Measurement> result = run.trainer.with_eval_weights([&run] {
    std::optional<Measurement> measured = run.task->validate(run.trainer.model());
    if (!measured || std::isfinite(measured->metric_values.front().value)) take_samples(run);
    return measured;
  });
  if (result) run.log.info("step {}: {}", run.trainer.steps(), result->text);
  return result;
}

namespace {

StepMetrics metrics_after(const TrainingContext& run,
                          const RunHistory& history,
                          const StepResult& result,
                          const std::optional<Measurement>& validation) {
  StepMetrics metrics = metrics_of(run.trainer, result);
  if (const std::int64_t batches = history.skipped.until(run.trainer.steps()); batches > 0)
    metrics.skipped_batches = batches;
  if (validation) metrics.validation = validation->metric_values;
  return metrics;
}

}  // namespace

void show_progress(TrainingContext& run, const StepResult& result, bool is_logged) {
  const std::int64_t step = run.trainer.steps(), steps = run.settings.training.steps;
  run.progress.update(
      {.step = step,
       .steps = steps,
       .loss = result.loss,
       .learning_rate = result.learning_rate,
       .gradient_norm = result.gradient_norm,
       .tokens_per_second = run.speed.tokens_per_second(),
       .utilization = run.speed.utilization(),
       .seconds_left = run.speed.seconds_a_step() * static_cast<double>(steps - step)},
      is_logged);
}

void call_step_hook(const TrainingContext& run,
                    const RunHistory& history,
                    const StepResult& result,
                    const std::optional<Measurement>& validation) {
  if (run.hooks.after_step) run.hooks.after_step(metrics_after(run, history, result, validation));
}

void record_step(TrainingContext& run,
                 const RunHistory& history,
                 const StepResult& result,
                 const std::optional<Measurement>& validation) {
  StepMetrics metrics = metrics_after(run, history, result, validation);
  metrics.metric_values = run.trainer.model().body().metric_values();
  for (auto& figure : run.loader.metric_values())
    metrics.metric_values.push_back(std::move(figure));
  const StepTiming measured = run.speed.timing();
  if (run.settings.metrics.timing) metrics.timing = measured;
  run.tracker.write(metrics);
}

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
