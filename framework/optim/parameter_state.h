// What a rank holds of the parameters, as pieces of a checkpoint.
#pragma once

#include <string>

#include "checkpoints/checkpoint.h"
#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Adds the values that a rank holds of the elements that it owns of a parameter, [shard_end -
// own_begin], as boxes of the whole parameter: none where it owns nothing, and none of a parameter
// that training reads no more.
void add_own(TrainingState& state,
             const std::string& name,
             const Parameters& parameters,
             const Parameter& parameter,
             const Tensor& values);

// The masters under the parameters' names: what each rank owns of them.
TrainingState weights_state(const Parameters& parameters);

// Throws ConfigurationError where training goes on to read what a checkpoint has no more
// (Parameter::active_steps).
void judge_ended(const Checkpoint& checkpoint, const Parameters& parameters);

}  // namespace longspan
