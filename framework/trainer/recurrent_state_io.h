// Saves and loads recurrent state in checkpoints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/data/batch.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

// Adds the state under its names, with `prefix`. `first`: the global index of its first row, of
// `rows`. `before`: the number of earlier positions in the checkpoint, which are not read.
void save_recurrent_state(TrainingState& state,
                          const RecurrentState& carried,
                          std::int64_t first,
                          std::int64_t rows,
                          const ProcessMesh& mesh,
                          const std::string& prefix = "",
                          std::int64_t before = 0);

// Allocates `count` rows of the state of these names in a checkpoint, in its dtype; empty if it has
// none of them. save_recurrent_state describes how to fill it. `longest`: maximum number of
// positions, of which the last are used.
RecurrentState allocate_recurrent_state(const Checkpoint& checkpoint,
                                        const std::vector<std::string>& names,
                                        std::int64_t count,
                                        const ProcessMesh& mesh,
                                        const Device& device,
                                        const std::string& prefix = "",
                                        std::optional<std::int64_t> longest = {});

// Returns the number of positions that the checkpoint has.
std::int64_t saved_length(const Checkpoint& checkpoint,
                          const std::vector<std::string>& names,
                          const std::string& prefix = "");

// Converts the state to the compute dtype.
void cast_recurrent_state(RecurrentState& carried, DType compute);

}  // namespace longspan
