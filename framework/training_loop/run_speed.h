// How fast a run is.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/planning/model_flops.h"
#include "framework/training_loop/step_meter.h"
#include "framework/training_loop/step_metrics.h"

namespace longspan {

// What its steps take, and what share that is of what its ranks could compute.
class ThroughputMeter {
 public:
  // `mesh` and `device` outlive it.
  ThroughputMeter(const RunConfig& settings,
                  const DataSizes& ids,
                  const ProcessMesh& mesh,
                  const Device& device)
      : dtype_(settings.precision.compute),
        mesh_(mesh),
        device_(device),
        needed_flops_(settings, ids) {}

  // Collective. Measures FLOP/s of all ranks, before the first step.
  double measure_peak();

  // Where parts of the time of steps are added.
  StepTimes& times() { return meter_.times(); }
  // Of a batch in the step behind so many, whose rows look at so many positions of earlier batches:
  // what the mathematics needs on all ranks. 0 on all but the first, which alone tells it.
  double flops_of(const Batch& batch, std::int64_t remembered, std::int64_t steps);
  void add(const StepCost& step) { meter_.add(step); }
  void reset() { meter_.reset(); }

  // Since it began again.
  double tokens_per_second() const { return meter_.tokens_per_second(); }
  std::optional<double> utilisation() const { return meter_.utilisation(peak_); }
  // Of all steps.
  double seconds_a_step() const { return meter_.seconds_a_step(); }
  // Collective. All of it since it began again, which it does anew.
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
