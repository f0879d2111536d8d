// Gradient check: the backward pass against central differences, in float64.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "framework/autograd/ops.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::testing {

// Standard normal values of this shape, times `deviation`, in f64.
inline Tensor random_tensor(const Shape& shape, std::uint64_t seed, double deviation = 1) {
  return tensor_of<double>(normal_values<double>(shape.elements(), seed, deviation), shape);
}

using VariableFunction = std::function<Variable(const std::vector<Variable>&)>;

struct GradientCheck {
  double step = 1e-4;
  // Relative to max(1, abs(derivative)).
  double tolerance = 1e-8;
  int directions = 2;
  int elements = 4;  // single elements per input
  std::uint64_t seed = 7;
};

namespace detail {

inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

inline std::vector<Variable> leaves_of(const std::vector<Tensor>& inputs) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.push_back(Variable::leaf(input.clone()));
  return leaves;
}

// The gradient of a leaf; zeros if it is undefined.
inline Tensor gradient_of(const Variable& leaf) {
  const Tensor gradient = leaf.gradient();
  return gradient.defined() ? gradient.clone()
                            : Tensor::zeros(leaf.shape(), DType::f64, backend_device());
}

// d/ds of upstream . f(inputs + s * direction of one input), to the fourth order.
inline double difference(const VariableFunction& f,
                         const std::vector<Tensor>& inputs,
                         std::size_t input,
                         const Tensor& direction,
                         const Tensor& upstream,
                         double step) {
  const NoGradGuard no_gradient;
  const auto loss_at = [&](double distance) {
    std::vector<Variable> moved;
    for (const Tensor& tensor : inputs) moved.emplace_back(tensor.clone());
    double* const values = moved[input].value().data<double>();
    for (std::int64_t i = 0; i < direction.elements(); ++i)
      values[i] += distance * direction.data<double>()[i];
    return dot(f(moved).value(), upstream);
  };
  return (8 * (loss_at(step) - loss_at(-step)) - (loss_at(2 * step) - loss_at(-2 * step))) /
         (12 * step);
}

inline std::vector<Tensor> gradients_of(const VariableFunction& f,
                                        const std::vector<Variable>& variables,
                                        const Tensor& upstream,
                                        int times) {
  std::vector<Variable> roots;
  std::vector<Tensor> seeds;
  for (int i = 0; i < times; ++i) {
    roots.push_back(f(variables));
    seeds.push_back(upstream.clone());
  }
  backward(roots, std::move(seeds));
  std::vector<Tensor> gradients;
  for (const Variable& variable : variables)
    gradients.push_back(variable.requires_grad() ? gradient_of(variable) : Tensor());
  return gradients;
}

inline void expect_multiple(const Tensor& found,
                            const Tensor& expected,
                            double factor,
                            const std::string& what) {
  SCOPED_TRACE(what);
  Values scaled = values_of(expected);
  for (double& value : scaled) value *= factor;
  expect_close(values_of(found), scaled, 1e-12);
}

}  // namespace detail

// Checks every gradient of f for a random upstream gradient.
// Along random directions and on single elements it must match differences. It must double if f is
// applied twice and over two backward passes. It must not change if only one input requires it.
// Without recording, f must return the same value. Requires f to be a pure function.
inline void expect_gradients(const VariableFunction& f,
                             const std::vector<Tensor>& inputs,
                             const GradientCheck& check = {}) {
  const std::vector<Variable> leaves = detail::leaves_of(inputs);
  const Variable y = f(leaves);
  ASSERT_TRUE(y.requires_grad());
  const Tensor value = y.value().clone();
  const Tensor upstream = random_tensor(y.shape(), check.seed);
  const std::vector<Tensor> gradients =
      detail::gradients_of(f, detail::leaves_of(inputs), upstream, 1);

  const Random random(check.seed);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto compare = [&](const Tensor& direction, const std::string& what) {
      const double found = detail::dot(gradients[i], direction);
      const double expected = detail::difference(f, inputs, i, direction, upstream, check.step);
      EXPECT_NEAR(found, expected, check.tolerance * std::max(1.0, std::abs(expected)))
          << "input " << i << ", " << what;
    };
    for (int d = 0; d < check.directions; ++d)
      compare(random_tensor(inputs[i].shape(),
                            check.seed + 100 * (i + 1) + static_cast<std::uint64_t>(d)),
              "direction " + std::to_string(d));
    for (int e = 0; e < check.elements; ++e) {
      const Tensor direction = Tensor::zeros(inputs[i].shape(), DType::f64, backend_device());
      const auto count = static_cast<std::uint64_t>(direction.elements());
      const std::uint64_t element = random.child(i).word(static_cast<std::uint64_t>(e)) % count;
      direction.data<double>()[element] = 1;
      compare(direction, "element " + std::to_string(element));
    }
  }

  const std::vector<Tensor> twice = detail::gradients_of(f, detail::leaves_of(inputs), upstream, 2);
  const std::vector<Variable> kept = detail::leaves_of(inputs);
  detail::gradients_of(f, kept, upstream, 1);
  const std::vector<Tensor> accumulated = detail::gradients_of(f, kept, upstream, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string input = "input " + std::to_string(i);
    detail::expect_multiple(twice[i], gradients[i], 2, input + " used twice");
    detail::expect_multiple(accumulated[i], gradients[i], 2, input + " in two passes");
    std::vector<Variable> alone;
    for (std::size_t j = 0; j < inputs.size(); ++j)
      alone.push_back(i == j ? Variable::leaf(inputs[j].clone()) : Variable(inputs[j].clone()));
    detail::expect_multiple(
        detail::gradients_of(f, alone, upstream, 1)[i], gradients[i], 1, input + " alone");
  }

  const NoGradGuard no_gradient;
  const Variable constant = f(detail::leaves_of(inputs));
  EXPECT_FALSE(constant.requires_grad());
  detail::expect_multiple(constant.value(), value, 1, "without recording");
}

}  // namespace longspan::testing
