// Memory that rollouts need in addition to training.
#pragma once

#include <vector>

#include "framework/modeling/model.h"
#include "framework/tasks/task.h"

namespace longspan {

// Runs a rollout of all environments of a rank on a dry device, with recurrent state of maximum
// length. The device's peak restarts with it. Returns what is retained while training on the
// rollout: the recurrent state at its start and at its end.
std::vector<RecurrentState> meta_rollout(const Model& model, const MetaBatch& wanted);

}  // namespace longspan
