#include "framework/training_loop/run_speed.h"

#include "framework/core/span.h"
#include "framework/planning/machine.h"

namespace longspan {

double ThroughputMeter::measure_peak() {
  peak_ = mesh_.world.all_reduce(matmul_peak(device_, dtype_), Reduction::sum);
  return peak_;
}

double ThroughputMeter::flops_of(const Batch& batch, std::int64_t remembered, std::int64_t steps) {
  if (mesh_.world.rank() != 0) return 0;
  const Span span({.name = "counting operations"});
  const TimelineScope nowhere(nullptr);  // no computation runs
  const auto count = needed_flops_.of(batch.fields, mesh_.data.size(), remembered, steps);
  return count ? count->total() : 0;
}

StepTiming ThroughputMeter::timing() {
  const std::int64_t memory = device_.allocator().report().total.peak;
  const StepTiming timing = {
      .tokens_per_second = tokens_per_second(),
      .mfu = utilization(),
      .peak_memory_bytes = mesh_.world.all_reduce(memory, Reduction::maximum),
      .times = meter_.mean_times()};
  reset();
  return timing;
}

}  // namespace longspan
