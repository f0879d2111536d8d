// What this machine reaches, measured as a run uses it.
#pragma once

#include "framework/train/machine.h"

namespace longspan {

// Collective. Measures one rank's share while all ranks of `world` measure, `local_ranks` of them
// on this machine, each with the threads that are set: the step of a small decoder, a sum of long
// vectors, and where there are several ranks an all-reduce. Then steps of other models are
// predicted from that and made, which shows how far a prediction may be off. The memory is left to
// the caller. Takes some seconds.
Machine measure_machine(const Communicator& world, int local_ranks);

}  // namespace longspan
