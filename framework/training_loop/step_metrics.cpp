#include "framework/training_loop/step_metrics.h"

namespace longspan {
namespace {

void add_training(std::vector<MetricField>& fields, const StepMetrics& metrics) {
  const auto add = [&](std::string name, auto value) {
    fields.push_back({MetricGroup::training, std::move(name), value});
  };
  add("tokens", metrics.tokens);
  add("loss", metrics.loss);
  if (metrics.terms.size() > 1)
    for (const LossTermValue& term : metrics.terms) add("loss_" + term.name, term.loss);
  for (const AuxiliaryMetricResult& watched : metrics.watched) {
    add(watched.name + "_mean", watched.mean);
    add(watched.name + "_max", watched.largest);
  }
  for (const auto& [name, value] : metrics.metric_values) add(name, value);
  add("learning_rate", metrics.learning_rate);
  add("grad_norm", metrics.gradient_norm);
  if (metrics.loss_scale) add("loss_scale", *metrics.loss_scale);
  if (metrics.reconstruction_error) add("reconstruction_error", *metrics.reconstruction_error);
  if (metrics.skipped_batches) add("skipped_batches", *metrics.skipped_batches);
}

void add_timing(std::vector<MetricField>& fields, const StepTiming& timing) {
  const auto add = [&](std::string name, double value) {
    fields.push_back({MetricGroup::time, std::move(name), value});
  };
  add("tokens_per_second", timing.tokens_per_second);
  if (timing.mfu) add("mfu", *timing.mfu);
  fields.push_back({MetricGroup::memory, "peak_memory_bytes", timing.peak_memory_bytes});
  add("step_seconds", timing.times.step);
  add("data_loading_seconds", timing.times.reading);
  add("communication_wait_seconds", timing.times.waiting);
  add("checkpoint_seconds", timing.times.saving);
  add("validation_seconds", timing.times.validating);
}

}  // namespace

StepMetrics metrics_of(const Trainer& trainer, const StepResult& result) {
  return {.step = trainer.steps(),
          .tokens = trainer.tokens(),
          .loss = result.loss,
          .learning_rate = result.learning_rate,
          .gradient_norm = result.gradient_norm,
          .loss_scale = result.loss_scale,
          .reconstruction_error = result.reconstruction_error,
          .terms = result.terms,
          .watched = result.watched};
}

MetricsRecord record_of(const StepMetrics& metrics) {
  MetricsRecord record = {.step = metrics.step, .time = seconds_of_the_clock(), .fields = {}};
  add_training(record.fields, metrics);
  if (metrics.timing) add_timing(record.fields, *metrics.timing);
  for (const MetricValue& figure : metrics.validation) {
    MetricField field = {MetricGroup::validation, figure.name, figure.value};
    if (figure.is_count) field.value = static_cast<std::int64_t>(figure.value);
    record.fields.push_back(std::move(field));
  }
  return record;
}

MetricsEnd end_of_metrics(const std::filesystem::path& path) {
  return end_of_lines(path, metrics_lines());
}

}  // namespace longspan
