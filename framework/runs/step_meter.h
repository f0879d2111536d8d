// What the steps of a run take.
#pragma once

#include <cstdint>

namespace longspan {

struct StepCost {
  double seconds = 0;
  std::int64_t tokens = 0;  // of the global batch
  double flops = 0;         // of all ranks
};

// Rates since it began again, and of all steps.
class StepMeter {
 public:
  void add(const StepCost& step) {
    recent_.seconds += step.seconds;
    recent_.tokens += step.tokens;
    recent_.flops += step.flops;
    seconds_ += step.seconds;
    ++steps_;
  }
  void begin_again() { recent_ = {}; }

  double tokens_per_second() const { return static_cast<double>(recent_.tokens) / recent_.seconds; }
  double flops_per_second() const { return recent_.flops / recent_.seconds; }
  double seconds_a_step() const { return seconds_ / static_cast<double>(steps_); }

 private:
  StepCost recent_;
  double seconds_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace longspan
