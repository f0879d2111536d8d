// Norms of unsharded tensors from the shards of each rank.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/nn/parameters.h"

namespace longspan {

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
