#include "framework/training_loop/step_report.h"

#include <utility>

namespace longspan {
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

}  // namespace longspan
