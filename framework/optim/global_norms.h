// What is asked of whole tensors, of which each rank owns pieces.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/nn/parameters.h"

namespace longspan {

// values[i] becomes its sum over all ranks, where each has put in what it found of the elements
// that it owns and answers for: then each element of the model has counted once. Collective.
void sum_over_elements(const Parameters& parameters, std::span<double> values);

// For each of parameters.trained() the sum of the squares of a whole tensor; `own` gives what this
// rank owns of it. Collective, the same on all ranks.
std::vector<double> squared_norms(const Parameters& parameters,
                                  const std::function<Tensor(const Parameter&)>& own);

// For each of parameters.trained(): those of its weight, and those of its gradient as it is now.
std::vector<double> squared_norms_of_weights(const Parameters& parameters);
std::vector<double> squared_norms_of_gradients(const Parameters& parameters);

}  // namespace longspan
