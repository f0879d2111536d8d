// This rank's shard of the parameters, as pieces of a checkpoint.
#pragma once

#include <string>

#include "checkpoints/checkpoint.h"
#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Adds the values of a parameter's elements that this rank owns, [shard_end - shard_begin], as
// boxes of the unsharded parameter. Adds nothing for an empty shard, or for a parameter that
// training no longer reads.
void add_own(TrainingState& state,
             const std::string& name,
             const Parameters& parameters,
             const Parameter& parameter,
             const Tensor& values);

// Returns the masters under the parameters' names: the shard that each rank owns.
TrainingState weights_state(const Parameters& parameters);

// Throws ConfigurationError if training still needs parameters that a checkpoint no longer has
// (Parameter::active_steps).
void check_ended(const Checkpoint& checkpoint, const Parameters& parameters);

}  // namespace longspan
