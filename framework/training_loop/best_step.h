// checkpoint.best_metric: the step whose validation was the best so far.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoints/training_state.h"
#include "framework/config/run_config.h"

namespace longspan {

struct BestStep {
  std::string figure;  // by which it is
  std::int64_t step = 0;
  double value = 0;  // of the figure at that step

  friend bool operator==(const BestStep&, const BestStep&) = default;
};

// The best step that a checkpoint tells of; nothing where it tells of none.
std::optional<BestStep> best_step(const Scalars& scalars);

// A value: what a run knows of its validations.
class BestTracker {
 public:
  explicit BestTracker(ValidationMetric goal) : goal_(std::move(goal)) {}

  // Whether this one is better than all before it. A figure that is no number never is, and of
  // equal ones the first stays.
  bool add(std::int64_t step, const Measurement& validation);
  // That a validation, whose loss is finite, has no such figure, as some are only of some data;
  // else empty.
  std::string missing(const Measurement& validation) const;
  // The state after that step is not saved: the best is the one before it again.
  void withdraw(std::int64_t step);

  const ValidationMetric& goal() const { return goal_; }
  const std::optional<BestStep>& best() const { return best_; }
  // What a checkpoint knew; its best by another figure says nothing.
  void restore(const Scalars& scalars);
  void forget() { best_.reset(); }
  void save(Scalars& scalars) const;

 private:
  ValidationMetric goal_;
  std::optional<BestStep> best_;
  std::optional<BestStep> before_;  // that one was
};

// By checkpoint.best_metric; nothing where that is empty.
std::optional<BestTracker> best_so_far(const RunConfig& settings);

}  // namespace longspan
