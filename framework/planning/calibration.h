// What this machine reaches, measured as a run uses it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/modeling/family.h"
#include "framework/planning/machine.h"

namespace longspan {

// A language model of 256 ids, and what a rank reads of it in a step.
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
// on this machine, each with the threads that are set: the step of one model, a sum of long
// vectors, and where there are several ranks an all-reduce. Then steps of the trials are
// predicted from that and made, which shows how far a prediction may be off. The memory is left to
// the caller. Takes some seconds.
MachineProfile measure_machine(const Communicator& world,
                               int local_ranks,
                               const CalibrationModels& models);

}  // namespace longspan
