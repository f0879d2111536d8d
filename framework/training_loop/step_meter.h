// What the steps of a run take.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/stopwatch.h"

namespace longspan {

// Seconds of the first rank.
struct StepTimes {
  double step = 0;        // all of it, with what follows
  double reading = 0;     // waiting for a batch
  double waiting = 0;     // within the step, for collectives that the host waits for
  double saving = 0;      // that training waited for checkpoints and histograms
  double validating = 0;  // measuring the validation text
};

// Adds the seconds of its life to a sum.
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

// Rates and times since it began again, and of all steps.
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

  // Where parts of the time are added; `step` is not among them.
  StepTimes& times() { return times_; }
  // Of one step, as a mean; of each part what was added.
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
  // The part of `peak`, operations a second, that they are. None above it: then the peak was
  // measured too low, as on a busy machine, or more operations were counted than are made.
  std::optional<double> utilisation(double peak) const {
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
