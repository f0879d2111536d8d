// What acting takes of memory beside training.
#pragma once

#include <vector>

#include "framework/modeling/model.h"
#include "framework/tasks/task.h"

namespace longspan {

// A rollout of all environments of a rank on a dry device, whose peak then begins with it, when
// what they carry is as long as it gets. Returns what is kept while the rollout is learnt from:
// what they carried when it began, and what they carry after it.
std::vector<RecurrentState> meta_rollout(const Model& model, const MetaBatch& wanted);

}  // namespace longspan
