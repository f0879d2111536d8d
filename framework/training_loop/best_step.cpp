#include "framework/training_loop/best_step.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace longspan {
namespace {

constexpr const char* figure_scalar = "metrics/best_metric";
constexpr const char* step_scalar = "metrics/best_step";
constexpr const char* value_scalar = "metrics/best_value";

constexpr const char* loss_scalar = "metrics/loss";
constexpr const char* validation_step_scalar = "metrics/validation_step";
constexpr const char* validation_loss_scalar = "metrics/validation_loss";
constexpr const char* validation_bits_scalar = "metrics/validation_bits_per_byte";

}  // namespace

std::optional<BestStep> best_step(const Scalars& scalars) {
  if (!scalars.has(step_scalar)) return std::nullopt;
  return BestStep{scalars.get<std::string>(figure_scalar),
                  scalars.get<std::int64_t>(step_scalar),
                  scalars.get<double>(value_scalar)};
}

bool BestTracker::add(std::int64_t step, const Measurement& validation) {
  const std::optional<double> value = validation.find(goal_.figure);
  if (!value || !std::isfinite(*value)) return false;
  if (best_ && !(goal_.more_is_better ? *value > best_->value : *value < best_->value))
    return false;
  before_ = best_;
  best_ = BestStep{goal_.figure, step, *value};
  return true;
}

std::string BestTracker::missing(const Measurement& validation) const {
  if (validation.find(goal_.figure) || !std::isfinite(validation.metric_values.front().value))
    return "";
  std::vector<std::string> names;
  for (const MetricValue& figure : validation.metric_values)
    if (figure.name.find('/') == std::string::npos) names.push_back(figure.name);
  return fmt::format(
      "checkpoint.best_metric: expected one of {}, found {}; no best checkpoint is retained",
      fmt::join(names, ", "),
      goal_.figure);
}

void BestTracker::withdraw(std::int64_t step) {
  if (best_ && best_->step == step) best_ = before_;
}

void BestTracker::restore(const Scalars& scalars) {
  const auto before = best_step(scalars);
  if (before && before->figure == goal_.figure) best_ = before;
}

std::optional<BestTracker> best_so_far(const RunConfig& settings) {
  for (const ValidationMetric& goal : validation_metrics(settings))
    if (goal.figure == settings.checkpoint.keep_best) return BestTracker(goal);
  return std::nullopt;
}

void BestTracker::save(Scalars& scalars) const {
  if (!best_) return;
  scalars.set(figure_scalar, best_->figure);
  scalars.set(step_scalar, best_->step);
  scalars.set(value_scalar, best_->value);
}

void SavedLosses::save(Scalars& scalars) const {
  if (loss) scalars.set(loss_scalar, *loss);
  if (!validation) return;
  scalars.set(validation_step_scalar, validation->step);
  scalars.set(validation_loss_scalar, validation->loss);
  if (validation->bits_per_byte) scalars.set(validation_bits_scalar, *validation->bits_per_byte);
}

SavedLosses SavedLosses::of(const Scalars& scalars) {
  SavedLosses losses;
  if (scalars.has(loss_scalar)) losses.loss = scalars.get<double>(loss_scalar);
  if (scalars.has(validation_step_scalar))
    losses.validation = {.step = scalars.get<std::int64_t>(validation_step_scalar),
                         .loss = scalars.get<double>(validation_loss_scalar)};
  if (losses.validation && scalars.has(validation_bits_scalar))
    losses.validation->bits_per_byte = scalars.get<double>(validation_bits_scalar);
  return losses;
}

}  // namespace longspan
