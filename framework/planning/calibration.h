// Measures the performance of this machine under a training workload.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/modeling/family.h"
#include "framework/planning/machine.h"

namespace longspan {

// A language model of 256 ids, and a rank's input per step.
struct CalibrationModel {
  std::int64_t streams = 1;
  std::int64_t segment = 1;
  BackboneFactory body;
};

struct CalibrationModels {
  CalibrationModel measured;
  std::vector<CalibrationModel> trials;
};

// Collective. Measures one rank's share while all ranks of `world` measure, `local_ranks` of them
// on this machine, each with the configured threads. It measures the step of one model, a sum of
// long vectors and, with several ranks, an all-reduce. Then it predicts and measures steps of the
// trial models, which bounds the prediction error. The caller sets the memory. Takes some seconds.
MachineProfile measure_machine(const Communicator& world,
                               int local_ranks,
                               const CalibrationModels& models);

}  // namespace longspan
