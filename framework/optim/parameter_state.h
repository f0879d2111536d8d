// This rank's shard of the parameters: as pieces of a checkpoint, and norms of unsharded tensors.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

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

// Norms of unsharded tensors from the shards of each rank.

// Collective. Sums values[i] over all ranks. Each rank contributes the elements that it owns and is
// responsible for, so each element of the model counts once.
void sum_over_elements(const Parameters& parameters, std::span<double> values);

// Collective; equal on all ranks. Returns the sum of squares of each unsharded tensor in
// parameters.trained(). `own` returns this rank's shard.
std::vector<double> squared_norms(const Parameters& parameters,
                                  const std::function<Tensor(const Parameter&)>& own);

// Return the squared norms of the weights, or of the current gradients, for each of
// parameters.trained().
std::vector<double> squared_norms_of_weights(const Parameters& parameters);
std::vector<double> squared_norms_of_gradients(const Parameters& parameters);

}  // namespace longspan
