// What rows carry, in and out of checkpoints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/data/recurrent_state.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

// Adds it under its names, each behind `prefix`. `first`: the global index of its first row, of
// `rows`. `before`: how many earlier positions the checkpoint has of each, which are not read.
void save_recurrent_state(TrainingState& state,
                          const RecurrentState& carried,
                          std::int64_t first,
                          std::int64_t rows,
                          const ProcessMesh& mesh,
                          const std::string& prefix = "",
                          std::int64_t before = 0);

// Room for `count` rows of what a checkpoint has of these names, in the dtype that it has it in;
// nothing where it has none of them. To be filled by what save_recurrent_state says of it.
// `longest`: the last positions that there is room for, where it has more.
RecurrentState allocate_recurrent_state(const Checkpoint& checkpoint,
                                        const std::vector<std::string>& names,
                                        std::int64_t count,
                                        const ProcessMesh& mesh,
                                        const Device& device,
                                        const std::string& prefix = "",
                                        std::optional<std::int64_t> longest = {});

// How many positions it has of them.
std::int64_t saved_length(const Checkpoint& checkpoint,
                          const std::vector<std::string>& names,
                          const std::string& prefix = "");

// In the dtype of computing.
void cast_recurrent_state(RecurrentState& carried, DType compute);

}  // namespace longspan
