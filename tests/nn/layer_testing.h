// Gradient checks of layers with respect to their inputs and all their parameters.
#pragma once

#include "framework/nn/parameters.h"
#include "tests/support/gradient_check.h"

namespace longspan::testing {

// Parameters in f64 on one process.
inline Parameters one_process_parameters() {
  return Parameters(backend_device(), DType::f64, ProcessMesh());
}

// Allocates the parameters with random values, also those whose initial value is constant.
inline void allocate_randomly(Parameters& parameters, std::uint64_t seed, double deviation = 0.5) {
  parameters.allocate(Random(seed));
  std::uint64_t place = seed;
  for (const auto& parameter : parameters.all())
    parameter->master.copy_from(random_tensor(parameter->shape, 1000 + ++place, deviation));
}

// Calls expect_gradients with the parameters after the inputs.
inline void expect_layer_gradients(Parameters& parameters,
                                   const VariableFunction& layer,
                                   std::vector<Tensor> inputs,
                                   const GradientCheck& check = {}) {
  const std::size_t given = inputs.size();
  for (const auto& parameter : parameters.all()) inputs.push_back(parameter->master.clone());
  expect_gradients(
      [&](const std::vector<Variable>& all) {
        for (std::size_t i = given; i < all.size(); ++i)
          parameters.all()[i - given]->variable = all[i];
        return layer({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(given)});
      },
      inputs,
      check);
}

}  // namespace longspan::testing
