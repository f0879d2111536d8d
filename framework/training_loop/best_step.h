// checkpoint.best_metric: the step whose validation was the best so far.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoints/training_state.h"
#include "framework/config/run_config.h"

namespace longspan {

struct BestStep {
  std::string figure;  // name of the validation metric
  std::int64_t step = 0;
  double value = 0;  // of the metric at that step

  friend bool operator==(const BestStep&, const BestStep&) = default;
};

// Returns the best step recorded in a checkpoint, or nothing if the checkpoint records none.
std::optional<BestStep> best_step(const Scalars& scalars);

// Tracks the best validation of a run. A value type.
class BestTracker {
 public:
  explicit BestTracker(ValidationMetric goal) : goal_(std::move(goal)) {}

  // Returns whether this validation is better than all previous ones. A non-finite metric is never
  // better, and the earliest of equal ones stays the best.
  bool add(std::int64_t step, const Measurement& validation);
  // Returns a message if a validation with finite loss lacks the metric, as some metrics exist only
  // for some data. Returns an empty string otherwise.
  std::string missing(const Measurement& validation) const;
  // Restores the previous best, as the state after that step is not saved.
  void withdraw(std::int64_t step);

  const ValidationMetric& goal() const { return goal_; }
  const std::optional<BestStep>& best() const { return best_; }
  // Takes the best step of a checkpoint, unless the checkpoint used another metric.
  void restore(const Scalars& scalars);
  void forget() { best_.reset(); }
  void save(Scalars& scalars) const;

 private:
  ValidationMetric goal_;
  std::optional<BestStep> best_;
  std::optional<BestStep> before_;  // the best before `best_`
};

// Returns a tracker of checkpoint.best_metric, or nothing if that is empty.
std::optional<BestTracker> best_so_far(const RunConfig& settings);

}  // namespace longspan
