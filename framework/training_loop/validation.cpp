#include "framework/training_loop/validation.h"

#include <cmath>

#include "framework/core/span.h"
#include "framework/decoding/sampling.h"

namespace longspan {
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

}  // namespace longspan
