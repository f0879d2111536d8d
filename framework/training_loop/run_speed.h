// Throughput of a run.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/planning/model_flops.h"
#include "framework/training_loop/step_meter.h"
#include "framework/training_loop/step_metrics.h"

namespace longspan {

// Measures the time of steps and the model FLOPs utilization of all ranks.
class ThroughputMeter {
 public:
  // `mesh` and `device` must outlive the meter.
  ThroughputMeter(const RunConfig& settings,
                  const DataSizes& ids,
                  const ProcessMesh& mesh,
                  const Device& device)
      : dtype_(settings.precision.compute),
        mesh_(mesh),
        device_(device),
        needed_flops_(settings, ids) {}

  // Measures the peak FLOP/s of all ranks, before the first step. Collective.
  double measure_peak();

  // Timers to which parts of a step's time are added.
  StepTimes& times() { return meter_.times(); }
  // Returns the model FLOPs of a batch on all ranks; 0 on all ranks but the first, which alone
  // reports it. `steps`: number of steps before it. `remembered`: positions of earlier batches that
  // its rows attend to.
  double flops_of(const Batch& batch, std::int64_t remembered, std::int64_t steps);
  void add(const StepCost& step) { meter_.add(step); }
  void reset() { meter_.reset(); }

  // Since the last reset.
  double tokens_per_second() const { return meter_.tokens_per_second(); }
  std::optional<double> utilization() const { return meter_.utilization(peak_); }
  // Over all steps.
  double seconds_a_step() const { return meter_.seconds_a_step(); }
  // Returns the metrics since the last reset, and resets. Collective.
  StepTiming timing();

 private:
  DType dtype_;
  const ProcessMesh& mesh_;
  const Device& device_;
  double peak_ = 0;
  ModelFlops needed_flops_;
  StepMeter meter_;
};

}  // namespace longspan
