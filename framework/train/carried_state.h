// What rows carry, in and out of checkpoints.
#pragma once

#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/comm/process_mesh.h"
#include "framework/data/carried.h"

namespace longspan {

// Adds it under its names, each behind `prefix`. `first`: the global index of its first row, of
// `rows`.
void add_carried(TrainingState& state,
                 const Carried& carried,
                 std::int64_t first,
                 std::int64_t rows,
                 const ProcessMesh& mesh,
                 const std::string& prefix = "");

// Room for `count` rows of what a checkpoint has of these names, in the dtype that it has it in;
// nothing where it has none of them. To be filled by what add_carried says of it.
Carried room_for_carried(const Checkpoint& checkpoint,
                         const std::vector<std::string>& names,
                         std::int64_t count,
                         const ProcessMesh& mesh,
                         const Device& device,
                         const std::string& prefix = "");

// In the dtype of computing.
void cast_carried(Carried& carried, DType compute);

}  // namespace longspan
