// Time and cost of a run's steps.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/stopwatch.h"

namespace longspan {

// Seconds on the first rank.
struct StepTimes {
  double step = 0;        // total, including what follows
  double reading = 0;     // waiting for a batch
  double waiting = 0;     // within the step, for collectives that the host waits for
  double saving = 0;      // training waiting for checkpoints and histograms
  double validating = 0;  // measuring validation
};

// Adds the seconds of its lifetime to a sum.
class ScopedTimer {
 public:
  explicit ScopedTimer(double& sum) : sum_(sum) {}
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;
  ~ScopedTimer() { sum_ += stopwatch_.seconds(); }

 private:
  double& sum_;
  Stopwatch stopwatch_;
};

struct StepCost {
  double seconds = 0;
  std::int64_t tokens = 0;  // of the global batch
  double flops = 0;         // of all ranks
};

// Rates and times since the last reset, and over all steps.
class StepMeter {
 public:
  void add(const StepCost& step) {
    recent_.seconds += step.seconds;
    recent_.tokens += step.tokens;
    recent_.flops += step.flops;
    seconds_ += step.seconds;
    ++steps_;
    ++recent_steps_;
  }
  void reset() {
    recent_ = {};
    recent_steps_ = 0;
    times_ = {};
    since_ = {};
  }

  // Timers for parts of a step; `step` is not among them.
  StepTimes& times() { return times_; }
  // Mean over the steps since the last reset, of each part.
  StepTimes mean_times() const {
    const auto steps = static_cast<double>(recent_steps_);
    return {since_.seconds() / steps,
            times_.reading / steps,
            times_.waiting / steps,
            times_.saving / steps,
            times_.validating / steps};
  }

  double tokens_per_second() const { return static_cast<double>(recent_.tokens) / recent_.seconds; }
  double flops_per_second() const { return recent_.flops / recent_.seconds; }
  // Returns the utilization, as a fraction of `peak` (FLOP/s). Empty above 1: the peak was measured
  // too low, as on a busy machine, or more operations were counted than executed.
  std::optional<double> utilization(double peak) const {
    const double share = flops_per_second() / peak;
    return share <= 1 ? std::optional(share) : std::nullopt;
  }
  double seconds_a_step() const { return seconds_ / static_cast<double>(steps_); }

 private:
  StepCost recent_;
  std::int64_t recent_steps_ = 0;
  StepTimes times_;
  Stopwatch since_;
  double seconds_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace longspan
