// Gates of GTrXL against the paper's equations, and their initial biases.
#include "framework/nn/gate.h"

#include "tests/nn/layer_testing.h"

namespace longspan::gate_test {
namespace {

using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t rows = 4;
constexpr std::int64_t width = 5;
constexpr GateKind kinds[] = {GateKind::sum,
                              GateKind::input,
                              GateKind::output,
                              GateKind::highway,
                              GateKind::sigtanh,
                              GateKind::gru};

double logistic_of(double x) { return 1 / (1 + std::exp(-x)); }

// One row of the reference.
using Row = std::vector<double>;
Row product(const Parameters& parameters, const std::string& name, const Row& x) {
  const Values weight = values_of(parameters.named(name).master);
  Row y(x.size(), 0);
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += weight[i * x.size() + j] * x[j];
  return y;
}

Row gru_of(const Parameters& parameters, const Row& x, const Row& y) {
  const auto both = [&](const std::string& part, const Row& stream) {
    Row sum = product(parameters, part + "/change/weight", y);
    const Row other = product(parameters, part + "/stream/weight", stream);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    return sum;
  };
  const Values b = values_of(parameters.named("bias").master);
  Row kept = both("reset", x);
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = logistic_of(kept[i]) * x[i];
  const Row update = both("update", x), candidate = both("candidate", kept);
  Row g(x.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double z = logistic_of(update[i] - b[i]);
    g[i] = (1 - z) * x[i] + z * std::tanh(candidate[i]);
  }
  return g;
}

Row gate_of(GateKind kind, const Parameters& parameters, const Row& x, const Row& y) {
  if (kind == GateKind::gru) return gru_of(parameters, x, y);
  Row g(x.size()), logits(x.size(), 0), candidate(x.size(), 0), b(x.size(), 0);
  if (kind != GateKind::sum)
    logits = product(parameters, "weight", kind == GateKind::sigtanh ? y : x);
  if (kind != GateKind::sum && kind != GateKind::input)
    b = values_of(parameters.named("bias").master);
  if (kind == GateKind::sigtanh) candidate = product(parameters, "candidate/weight", y);
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double open = logistic_of(logits[i] - b[i]), closed = logistic_of(logits[i] + b[i]);
    if (kind == GateKind::sum) g[i] = x[i] + y[i];
    if (kind == GateKind::input) g[i] = open * x[i] + y[i];
    if (kind == GateKind::output) g[i] = x[i] + open * y[i];
    if (kind == GateKind::highway) g[i] = closed * x[i] + (1 - closed) * y[i];
    if (kind == GateKind::sigtanh) g[i] = x[i] + open * std::tanh(candidate[i]);
  }
  return g;
}

Values by_rows(const std::function<Row(const Row&, const Row&)>& f,
               const Tensor& x,
               const Tensor& y) {
  Values all;
  for (std::int64_t row = 0; row < rows; ++row)
    for (const double value : f(values_of(x.slice(row, row + 1)), values_of(y.slice(row, row + 1))))
      all.push_back(value);
  return all;
}

TEST(Gate, MatchesPaperEquations) {
  for (const GateKind kind : kinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    Parameters parameters = testing::one_process_parameters();
    const Gate::Options options = {.kind = kind, .width = width};
    const Gate gate(Scope(parameters), options);
    testing::allocate_randomly(parameters, 1);
    const Tensor x = random_tensor({rows, width}, 2), y = random_tensor({rows, width}, 3);
    const Values expected =
        by_rows([&](const Row& a, const Row& b) { return gate_of(kind, parameters, a, b); }, x, y);
    expect_close(values_of(gate(Variable(x), Variable(y)).value()), expected, 1e-13);
  }
}

TEST(Gate, GradientMatchesFiniteDifferences) {
  for (const GateKind kind : kinds)
    for (const bool biases : {false, true}) {
      SCOPED_TRACE(static_cast<int>(kind));
      Parameters parameters = testing::one_process_parameters();
      const Gate::Options options = {.kind = kind, .width = width, .biases = biases};
      const Gate gate(Scope(parameters), options);
      testing::allocate_randomly(parameters, 1);
      testing::expect_layer_gradients(
          parameters,
          [&](const std::vector<Variable>& v) { return gate(v[0], v[1]); },
          {random_tensor({2, 3, width}, 2), random_tensor({2, 3, width}, 3)},
          {.directions = 1, .elements = 2});
    }
}

// A large b closes the gate. The kinds sum and input have no b.
TEST(Gate, LargeBiasPassesStreamThrough) {
  for (const GateKind kind :
       {GateKind::output, GateKind::highway, GateKind::sigtanh, GateKind::gru}) {
    Parameters parameters = testing::one_process_parameters();
    const Gate::Options options = {.kind = kind, .width = width, .bias = 50};
    const Gate gate(Scope(parameters), options);
    parameters.allocate(Random(1));
    const Tensor x = random_tensor({rows, width}, 2), y = random_tensor({rows, width}, 3);
    expect_close(values_of(gate(Variable(x), Variable(y)).value()), values_of(x), 1e-6);
  }
}

TEST(Gate, BiasHasPaperInitAndNoWeightDecay) {
  for (const auto& [kind, bias] : {std::pair{GateKind::output, 1.0},
                                   std::pair{GateKind::highway, 1.0},
                                   std::pair{GateKind::sigtanh, 1.0},
                                   std::pair{GateKind::gru, 2.0}}) {
    Parameters parameters = testing::one_process_parameters();
    const Gate::Options options = {.kind = kind, .width = width, .biases = true};
    const Gate gate(Scope(parameters), options);
    parameters.allocate(Random(1));
    EXPECT_EQ(values_of(parameters.named("bias").master), Values(width, bias));
    EXPECT_FALSE(parameters.named("bias").decays);
  }
}

// The candidate of gru is a tanh, between -1 and 1.
TEST(Gate, HighwayAndGruStayBetweenStreamAndCandidate) {
  for (const GateKind kind : {GateKind::highway, GateKind::gru}) {
    Parameters parameters = testing::one_process_parameters();
    const Gate::Options options = {.kind = kind, .width = width};
    const Gate gate(Scope(parameters), options);
    testing::allocate_randomly(parameters, 1);
    const Tensor x = random_tensor({rows, width}, 2), y = random_tensor({rows, width}, 3);
    const Values g = values_of(gate(Variable(x), Variable(y)).value());
    const Values stream = values_of(x), change = values_of(y);
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double reach = kind == GateKind::gru ? 1 : change[i];
      EXPECT_LE(g[i], std::max(stream[i], reach));
      EXPECT_GE(g[i], std::min(stream[i], kind == GateKind::gru ? -1 : change[i]));
    }
  }
}

}  // namespace
}  // namespace longspan::gate_test
