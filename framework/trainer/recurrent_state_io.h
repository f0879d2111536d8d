// Saves and loads recurrent state in checkpoints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/data/batch.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Adds the state under its names, with `prefix`. `first`: the global index of its first row, of
// `rows`. `before`: the number of earlier positions in the checkpoint, which are not read. Tensors
// of Parameters::recurrent_states are named "recurrent_state/" and their name.
void save_recurrent_state(TrainingState& state,
                          const RecurrentState& carried,
                          std::int64_t first,
                          std::int64_t rows,
                          const Parameters& parameters,
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

// Allocates `count` rows of a stateful model's state; empty if the checkpoint has none of it.
// Throws DataError, which names the tensor, if one is missing or has another shape.
RecurrentState allocate_recurrent_state(const Checkpoint& checkpoint,
                                        const std::vector<RecurrentStateSpec>& specs,
                                        std::int64_t count,
                                        const Device& device);

// Returns the number of positions that the checkpoint has.
std::int64_t saved_length(const Checkpoint& checkpoint,
                          const std::vector<std::string>& names,
                          const std::string& prefix = "");

// Converts the state to the dtypes of these parameters: their compute dtype, or that of
// RecurrentStateSpec.
void cast_recurrent_state(RecurrentState& carried, const Parameters& parameters);

}  // namespace longspan
