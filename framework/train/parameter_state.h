// What a rank holds of the parameters, as pieces of a checkpoint.
#pragma once

#include <string>

#include "checkpoints/training_state.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Adds the values that a rank holds of the elements that it owns of a parameter, [own_end -
// own_begin], as boxes of the whole parameter: none where it owns nothing.
void add_own(TrainingState& state,
             const std::string& name,
             const Parameters& parameters,
             const Parameter& parameter,
             const Tensor& values);

// The masters under the parameters' names: what each rank owns of them.
TrainingState weights_state(const Parameters& parameters);

}  // namespace longspan
