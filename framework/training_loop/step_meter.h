// Time and cost of a run's steps, and the ranks that the others wait for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/span.h"
#include "framework/distributed/communicator.h"
#include "framework/training_loop/log.h"

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

// Detects ranks that the others wait for.

// Seconds that one rank has spent in steps, and the part spent waiting for collectives.
struct StepWait {
  double seconds = 0;
  double waited = 0;
};

// Returns, for example, "rank 3 is slow: the others waited 81% of the time of the last 50 steps for
// it, and it 2%". It lists ranks that waited far less than all others, at most half of them. Empty
// if there are none.
std::string slow_ranks_text(const std::vector<StepWait>& of_ranks, std::int64_t steps);

// Compares the ranks at intervals and logs slow ones. The host cannot measure how long GPUs wait in
// NCCL, so no rank is named there.
class StragglerDetector {
 public:
  // Adds a step on every rank. Collective at every tenth step. Rank 0 logs the slow ranks once
  // enough seconds have been measured, and again when they change.
  void add(const StepWait& step, const Communicator& world, const Log& log);

 private:
  StepWait sum_;
  std::int64_t steps_ = 0;
  // On rank 0: sums of the ranks at the last comparison.
  std::vector<StepWait> before_;
  std::int64_t steps_before_ = 0;
  std::string last_reported_;  // the ranks named last
  double min_seconds_ = 10;    // doubled after each message
};

}  // namespace longspan
