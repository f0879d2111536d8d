// Optimizers over whole runs of parameters.
#include "framework/train/optimizer.h"

#include "tests/nn/layer_testing.h"

namespace longspan {
namespace {

using testing::one_process_parameters;
using testing::Values;
using testing::values_of;

constexpr OptimizerKind kinds[] = {OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd};

double sum_of(const Tensor& tensor) {
  double total = 0;
  for (const double value : values_of(tensor)) total += value;
  return total;
}

TEST(OptimizerRuns, OnlyWhatDecaysLosesWeightWithoutAGradient) {
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    Parameters parameters = one_process_parameters();
    const Weight first = parameters.add("first", {3, 3}, -1, Initial::constant(1), true);
    const Weight never = parameters.add("never", {3, 3}, -1, Initial::constant(1), false);
    const Weight last = parameters.add("last", {5, 2}, -1, Initial::constant(1), true);
    const Weight vector = parameters.add("vector", {4}, -1, Initial::constant(1), false);
    parameters.allocate(Random(1));
    Optimizer optimizer({.kind = kind, .weight_decay = 0.5}, parameters);
    optimizer.update(0.1, 1);
    EXPECT_EQ(values_of(first->master), Values(9, 0.95));
    EXPECT_EQ(values_of(last->master), Values(10, 0.95));
    EXPECT_EQ(values_of(never->master), Values(9, 1));
    EXPECT_EQ(values_of(vector->master), Values(4, 1));
  }
}

TEST(OptimizerRuns, WhatLiesBetweenParametersStaysZero) {
  for (const OptimizerKind kind : kinds) {
    Parameters parameters = one_process_parameters();
    const Weight a = parameters.add("a", {3, 5}, -1, Initial::constant(2), true);
    const Weight b = parameters.add("b", {7, 1}, -1, Initial::constant(3), true);
    parameters.allocate(Random(1));
    Optimizer optimizer({.kind = kind}, parameters);
    for (int step = 0; step < 3; ++step) {
      parameters.clear_gradients();
      backward(add(sum(a->variable, 2), sum(b->variable, -5)));
      optimizer.update(0.1, 1);
    }
    ASSERT_EQ(parameters.runs().size(), 1u);
    const ParameterRun& run = parameters.runs().front();
    EXPECT_EQ(run.own_master.elements(), 16 + 7);
    EXPECT_EQ(sum_of(run.own_master.slice(15, 16)), 0);
    EXPECT_NE(values_of(a->master), Values(15, 2));
    const Tensor squares = Tensor::empty({1}, DType::f64, parameters.device());
    sum_squared_gradients(parameters, squares);
    EXPECT_EQ(sum_of(squares), 15 * 4 + 7 * 25);
  }
}

}  // namespace
}  // namespace longspan
