// Optimizers on flat runs of parameters.
#include "framework/optim/optimizer.h"

#include <cmath>

#include "framework/optim/muon.h"
#include "framework/optim/optimizer_options.h"
#include "tests/nn/layer_testing.h"

namespace longspan::optimizer_test {
namespace {

using testing::one_process_parameters;
using testing::random_tensor;
using testing::tensor_of;
using testing::Values;
using testing::values_of;

// Parameters with separate masters if the optimizer requires them.
Parameters parameters_for(OptimizerKind kind) {
  return Parameters(
      testing::backend_device(), DType::f64, ProcessMesh(), {}, entry_of(kind).separate_masters);
}

double sum_of(const Tensor& tensor) {
  double total = 0;
  for (const double value : values_of(tensor)) total += value;
  return total;
}

TEST(Optimizer, AppliesWeightDecayOnlyWhereEnabled) {
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    Parameters parameters = one_process_parameters();
    const Weight first = parameters.add("first", {3, 3}, -1, Initializer::constant(1), true);
    const Weight never = parameters.add("never", {3, 3}, -1, Initializer::constant(1), false);
    const Weight last = parameters.add("last", {5, 2}, -1, Initializer::constant(1), true);
    const Weight vector = parameters.add("vector", {4}, -1, Initializer::constant(1), false);
    parameters.allocate(Random(1));
    Optimizer optimizer({.kind = kind, .weight_decay = 0.5}, parameters);
    optimizer.update(0.1, 1);
    EXPECT_EQ(values_of(first->master), Values(9, 0.95));
    EXPECT_EQ(values_of(last->master), Values(10, 0.95));
    EXPECT_EQ(values_of(never->master), Values(9, 1));
    EXPECT_EQ(values_of(vector->master), Values(4, 1));
  }
}

TEST(Optimizer, PaddingBetweenParametersStaysZero) {
  for (const OptimizerKindEntry& entry : optimizer_kinds()) {
    SCOPED_TRACE(entry.name);
    Parameters parameters = parameters_for(entry.kind);
    const Weight a = parameters.add("a", {3, 5}, -1, Initializer::constant(2), true);
    const Weight b = parameters.add("b", {7, 1}, -1, Initializer::constant(3), true);
    parameters.allocate(Random(1));
    Optimizer optimizer({.kind = entry.kind}, parameters);
    const auto take_gradients = [&] {
      parameters.clear_gradients();
      backward(add(sum(a->variable, 2), sum(b->variable, -5)));
    };
    for (int step = 0; step < 3; ++step) {
      take_gradients();
      optimizer.update(0.1, 1);
    }
    ASSERT_EQ(parameters.runs().size(), 1u);
    const FlatParameterRun& run = parameters.runs().front();
    EXPECT_EQ(run.shard_master.elements(), 16 + 7);
    EXPECT_EQ(sum_of(run.shard_master.slice(15, 16)), 0);
    EXPECT_NE(values_of(a->master), Values(15, 2));
    take_gradients();
    const Tensor squares = Tensor::empty({1}, DType::f64, parameters.device());
    sum_squared_gradients(parameters, squares);
    EXPECT_EQ(sum_of(squares), 15 * 4 + 7 * 25);
  }
}

// The forward pass reads rounded masters; schedule_free trains at a different point.
TEST(Optimizer, ComputeWeightsMatchRoundedMasters) {
  for (const OptimizerKindEntry& entry : optimizer_kinds()) {
    SCOPED_TRACE(entry.name);
    Parameters parameters(
        testing::backend_device(), DType::bf16, ProcessMesh(), {}, entry.separate_masters);
    const Weight matrix =
        parameters.add("matrix", {6, 5}, -1, Initializer::normal(1), true, {.hidden = true});
    const Weight vector = parameters.add("vector", {7}, -1, Initializer::normal(1), false);
    parameters.allocate(Random(1));
    Optimizer optimizer({.kind = entry.kind, .weight_decay = 0.1}, parameters);
    const Values before = values_of(matrix->master);
    for (int step = 0; step < 2; ++step) {
      parameters.clear_gradients();
      backward(add(sum(matrix->variable, 2), sum(vector->variable, -5)));
      optimizer.update(0.1, 1);
    }
    EXPECT_NE(values_of(matrix->master), before);
    if (entry.separate_masters) {
      EXPECT_NE(values_of(vector->compute), values_of(vector->master));
      optimizer.use_eval_weights();
    }
    Values rounded = values_of(matrix->master);
    for (double& value : rounded) value = testing::rounded<BFloat16>(value);
    EXPECT_EQ(values_of(matrix->compute), rounded);
    EXPECT_EQ(values_of(vector->compute), values_of(vector->master));
  }
}

// One parameter, updated with given gradients.
struct Single {
  Parameters parameters;
  Weight weight;
  Optimizer optimizer;

  Single(const OptimizerOptions& options, const Shape& shape, bool hidden = false)
      : parameters(parameters_for(options.kind)),
        weight(
            parameters.add("weight", shape, -1, Initializer::normal(1), true, {.hidden = hidden})),
        optimizer(options, allocated()) {}

  const Parameters& allocated() {
    parameters.allocate(Random(3));
    return parameters;
  }
  void update(const Tensor& gradient, double rate) {
    parameters.clear_gradients();
    backward({weight->variable}, {gradient.clone()});
    optimizer.update(rate, 1);
  }
};

TEST(Adagrad, GradClipScalesStepButNotAccumulator) {
  Single single({.kind = OptimizerKind::adagrad, .grad_clip = 0.5}, {4});
  Values weight = values_of(single.weight->master), sum(4);
  for (int step = 0; step < 3; ++step) {
    // The second gradient is below the clip norm.
    const Tensor gradient =
        random_tensor({4}, 10 + static_cast<std::uint64_t>(step), step == 1 ? 0.01 : 1);
    single.update(gradient, 0.1);
    const Values g = values_of(gradient);
    double norm = 0;
    for (const double each : g) norm += each * each;
    norm = std::sqrt(norm);
    const double rate = norm > 0.5 ? 0.1 * 0.5 / (norm + 1e-10) : 0.1;
    for (std::size_t i = 0; i < 4; ++i) {
      sum[i] += g[i] * g[i];
      weight[i] -= rate * g[i] / (std::sqrt(sum[i]) + 1e-10);
    }
  }
  testing::expect_close(values_of(single.weight->master), weight, 1e-14);
}

TEST(Lamb, ZeroWeightsUseAdamStep) {
  Parameters parameters = one_process_parameters();
  const Weight zeros = parameters.add("zeros", {3}, -1, Initializer::constant(0), false);
  parameters.allocate(Random(1));
  Optimizer optimizer({.kind = OptimizerKind::lamb, .epsilon = 1e-12}, parameters);
  backward(sum(zeros->variable, 2));
  optimizer.update(0.1, 1);
  testing::expect_close(values_of(zeros->master), Values(3, -0.1), 1e-10);
}

// With beta2 = 0.9 the variance is tractable from update 5: 19 - 2 t 0.9^t / (1 - 0.9^t) is 3.7
// before it.
TEST(RAdam, UsesFirstMomentUntilVarianceIsTractable) {
  Single single({.kind = OptimizerKind::radam, .beta1 = 0.8, .beta2 = 0.9}, {5});
  Values weight = values_of(single.weight->master), first(5), second(5);
  int adapted = 0;
  for (int t = 1; t <= 8; ++t) {
    const Tensor gradient = random_tensor({5}, static_cast<std::uint64_t>(t));
    single.update(gradient, 0.1);
    const Values g = values_of(gradient);
    const double length = 19 - 2 * t * std::pow(0.9, t) / (1 - std::pow(0.9, t));
    const bool adapts = length > 4;
    adapted += adapts ? 1 : 0;
    const double factor =
        adapts ? std::sqrt((length - 4) * (length - 2) * 19 / (15. * 17 * length)) : 1;
    for (std::size_t i = 0; i < 5; ++i) {
      first[i] = 0.8 * first[i] + 0.2 * g[i];
      second[i] = 0.9 * second[i] + 0.1 * g[i] * g[i];
      const double mean = first[i] / (1 - std::pow(0.8, t));
      const double root = std::sqrt(second[i] / (1 - std::pow(0.9, t))) + 1e-8;
      weight[i] -= 0.1 * factor * (adapts ? mean / root : mean);
    }
  }
  EXPECT_GT(adapted, 0);
  EXPECT_LT(adapted, 8);
  testing::expect_close(values_of(single.weight->master), weight, 1e-13);
}

// The last two axes are factored; each index of the leading axes is a separate matrix.
TEST(Adafactor, LeadingAxesMatchSeparateMatrices) {
  const OptimizerOptions options = {
      .kind = OptimizerKind::adafactor,
      .adafactor = {.relative_step = false, .scale_by_weights = false, .clipping_threshold = 1e9}};
  Single both(options, {2, 3, 4});
  const Values begin = values_of(both.weight->master);
  Single first(options, {3, 4}), last(options, {3, 4});
  first.weight->master.copy_from(tensor_of<double>({begin.begin(), begin.begin() + 12}, {3, 4}));
  last.weight->master.copy_from(tensor_of<double>({begin.begin() + 12, begin.end()}, {3, 4}));
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const Tensor gradient = random_tensor({2, 3, 4}, step);
    both.update(gradient, 0.1);
    first.update(gradient.slice(0, 1).reshape({3, 4}), 0.1);
    last.update(gradient.slice(1, 2).reshape({3, 4}), 0.1);
  }
  Values expected = values_of(first.weight->master);
  for (const double value : values_of(last.weight->master)) expected.push_back(value);
  testing::expect_close(values_of(both.weight->master), expected, 1e-14);
}

// The smaller of X X^T and X^T X is close to the identity.
TEST(Muon, NewtonSchulzOutputsAreNearlyOrthogonal) {
  for (const Shape& shape : {Shape{4, 9}, Shape{9, 4}, Shape{6, 6}}) {
    const Tensor matrix = random_tensor(shape, 5);
    orthogonalize(matrix, 5);
    const Values x = values_of(matrix);
    const std::int64_t rows = shape[0], columns = shape[1];
    const bool wide = rows <= columns;
    const std::int64_t size = std::min(rows, columns), length = std::max(rows, columns);
    const auto at = [&](std::int64_t i, std::int64_t k) {
      return x[static_cast<std::size_t>(wide ? i * columns + k : k * columns + i)];
    };
    for (std::int64_t i = 0; i < size; ++i)
      for (std::int64_t j = 0; j < size; ++j) {
        double product = 0;
        for (std::int64_t k = 0; k < length; ++k) product += at(i, k) * at(j, k);
        // Singular values are between 0.68 and 1.2.
        EXPECT_NEAR(product, i == j ? 1 : 0, 0.55) << i << ", " << j;
      }
  }
}

// Diagonal matrices stay diagonal; their elements follow the scalar polynomial.
TEST(Muon, SingularValuesFollowThePolynomial) {
  const Values diagonal = {3, 0, 1e-3};
  Values matrix(9);
  for (std::size_t i = 0; i < 3; ++i) matrix[4 * i] = diagonal[i];
  const Tensor x = tensor_of<double>(matrix, {3, 3});
  orthogonalize(x, 3);
  Values expected(9);
  for (std::size_t i = 0; i < 3; ++i) {
    double value = diagonal[i] / (std::sqrt(9 + 1e-6) + 1e-7);
    for (int k = 0; k < 3; ++k)
      value = 3.4445 * value - 4.775 * std::pow(value, 3) + 2.0315 * std::pow(value, 5);
    expected[4 * i] = value;
  }
  testing::expect_close(values_of(x), expected, 1e-13);
}

TEST(Muon, NonHiddenWeightsUseAdamW) {
  const OptimizerOptions muon = {.kind = OptimizerKind::muon, .beta2 = 0.9, .weight_decay = 0.1};
  OptimizerOptions adamw = muon;
  adamw.kind = OptimizerKind::adamw;
  Single found(muon, {3, 4}), plain(adamw, {3, 4}), hidden(muon, {3, 4}, true);
  for (std::uint64_t step = 1; step <= 3; ++step)
    for (Single* each : {&found, &plain, &hidden}) each->update(random_tensor({3, 4}, step), 0.1);
  EXPECT_EQ(values_of(found.weight->master), values_of(plain.weight->master));
  EXPECT_NE(values_of(hidden.weight->master), values_of(plain.weight->master));
}

// The first direction is the orthogonalized Nesterov gradient (1.95 times the gradient) times its
// scale.
TEST(Muon, FirstStepMatchesScaledOrthogonalDirection) {
  for (const MuonScale scale : {MuonScale::adam, MuonScale::spectral}) {
    Single single(
        {.kind = OptimizerKind::muon, .weight_decay = 0.5, .muon = {.scale = scale}}, {8, 2}, true);
    Values weight = values_of(single.weight->master);
    const Tensor gradient = random_tensor({8, 2}, 1);
    single.update(gradient, 0.1);
    Values ahead = values_of(gradient);
    for (double& value : ahead) value *= 1.95;
    const Tensor whole = tensor_of<double>(ahead, {8, 2});
    orthogonalize(whole, 5);
    const double factor = scale == MuonScale::adam ? 0.2 * std::sqrt(8.0) : 2;
    const Values direction = values_of(whole);
    for (std::size_t i = 0; i < weight.size(); ++i)
      weight[i] = (1 - 0.1 * 0.5) * weight[i] - 0.1 * factor * direction[i];
    testing::expect_close(values_of(single.weight->master), weight, 1e-13);
  }
}

TEST(ScheduleFree, TrainWeightsInterpolateFastAndAverage) {
  Single single({.kind = OptimizerKind::schedule_free, .beta1 = 0.75}, {3, 2});
  Values fast = values_of(single.weight->master), average = fast, second(6);
  double rates = 0;
  for (int t = 1; t <= 5; ++t) {
    const double scheduled = t < 3 ? 0.05 * t : 0.1;  // warm-up
    const Tensor gradient = random_tensor({3, 2}, static_cast<std::uint64_t>(t));
    single.update(gradient, scheduled);
    const Values g = values_of(gradient);
    const double rate = scheduled * std::sqrt(1 - std::pow(0.999, t));
    rates += rate * rate;
    for (std::size_t i = 0; i < 6; ++i) {
      second[i] = 0.999 * second[i] + 0.001 * g[i] * g[i];
      fast[i] -= rate * g[i] / (std::sqrt(second[i]) + 1e-8);
      average[i] += rate * rate / rates * (fast[i] - average[i]);
    }
  }
  Values between(6);
  for (std::size_t i = 0; i < 6; ++i) between[i] = 0.75 * average[i] + 0.25 * fast[i];
  testing::expect_close(values_of(single.weight->master), average, 1e-13);
  testing::expect_close(values_of(single.weight->variable.value()), between, 1e-13);
  single.optimizer.use_eval_weights();
  EXPECT_EQ(values_of(single.weight->variable.value()), values_of(single.weight->master));
  single.optimizer.use_train_weights();
  testing::expect_close(values_of(single.weight->variable.value()), between, 1e-13);
}

}  // namespace
}  // namespace longspan::optimizer_test
