// Validation results that a checkpoint records: the losses, and the best step.
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

// Last measured losses of a run, in nats per token. A value type.
struct SavedLosses {
  struct Validation {
    std::int64_t step = 0;
    double loss = 0;
    std::optional<double> bits_per_byte = {};  // if the task has it
  };

  std::optional<double> loss;  // of the last step, on its own batch
  std::optional<Validation> validation;

  // The scalars "metrics/...". An older checkpoint has none: the losses stay empty.
  void save(Scalars& scalars) const;
  static SavedLosses of(const Scalars& scalars);
};

}  // namespace longspan
