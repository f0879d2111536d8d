// Power norms: exact gradients during warmup, then the paper's recurrences.
#include "framework/autograd/sequence_products.h"
#include "framework/nn/layers.h"
#include "tests/nn/layer_testing.h"

namespace longspan::power_norm_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

constexpr std::int64_t batch = 2, time = 4, width = 3;
constexpr double epsilon = 1e-3;

Norm power_norm_of(Parameters& parameters, std::int64_t warmup) {
  return {Scope(parameters).child("norm"),
          width,
          {NormKind::power, {.decay = 0.75, .warmup = warmup}, epsilon}};
}

ForwardContext step_pass(std::int64_t step) {
  return {
      .training = true, .random = Random(3).child(static_cast<std::uint64_t>(step)), .step = step};
}

Tensor lengths() { return testing::ids_of({4, 2}); }

// Gradients of the rows, the gain and the bias, including those through the statistics.
TEST(PowerNorm, WarmupGradientMatchesFiniteDifferences) {
  for (const bool padded : {false, true}) {
    Parameters parameters = testing::one_process_parameters();
    const Norm norm = power_norm_of(parameters, 10);
    testing::allocate_randomly(parameters, 1);
    testing::expect_layer_gradients(parameters,
                                    [&](const std::vector<Variable>& in) {
                                      const Variable y =
                                          norm(in[0], step_pass(0), padded ? lengths() : Tensor());
                                      return padded ? mask_padding(y, {{0, time}}, lengths()) : y;
                                    },
                                    {random_tensor({batch, time, width}, 1)});
  }
}

TEST(PowerNorm, UsesBatchStatisticsThenRunningAverage) {
  Parameters parameters = testing::one_process_parameters();
  const Norm norm = power_norm_of(parameters, 1);
  parameters.allocate(Random(1));
  const Tensor x = random_tensor({batch, time, width}, 1, 3);
  const Values y = values_of(norm(Variable(x), step_pass(0), {}).value());
  for (std::size_t c = 0; c < width; ++c) {
    double squares = 0;
    for (std::size_t i = c; i < y.size(); i += width) squares += y[i] * y[i];
    EXPECT_NEAR(squares / (batch * time), 1, epsilon);
  }
  // The second step and passes outside training divide by the running average of the first step.
  parameters.end_step(true);
  const Values square = values_of(parameters.power_statistics().front()->square);
  Values expected = values_of(x);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] /= std::sqrt(square[i % width] + epsilon);
  expect_close(values_of(norm(Variable(x), step_pass(1), {}).value()), expected, 1e-14);
  expect_close(values_of(norm(Variable(x), ForwardContext(), {}).value()), expected, 1e-14);
  expect_close(values_of(norm(Variable(x)).value()), expected, 1e-14);
}

// Algorithm 2 of Shen et al. 2020.
struct Reference {
  Values square = Values(width, 1), slope = Values(width, 0);

  // Returns the gradient of x and updates the averages. gain: the norm's weight.
  Values step(const Values& x, const Values& dy, const Values& gain, const Values& counted) {
    Values dx = x;
    double count = 0;
    for (const double each : counted) count += each;
    for (std::size_t c = 0; c < width; ++c) {
      const double deviation = std::sqrt(square[c] + epsilon);
      double squares = 0, normed_squares = 0, products = 0;
      for (std::size_t i = c; i < x.size(); i += width) {
        const double counts = counted[i / width], normed = x[i] / deviation, g = dy[i] * gain[c];
        dx[i] = (g - counts * slope[c] * normed) / deviation;
        squares += counts * x[i] * x[i] / count;
        normed_squares += counts * normed * normed / count;
        products += counts * g * normed / count;
      }
      slope[c] = slope[c] * (1 - 0.25 * normed_squares) + 0.25 * products;
      square[c] = 0.75 * square[c] + 0.25 * squares;
    }
    return dx;
  }
};

// Norm::second_read reads the rows a second time. Gradients equal those of one read with both uses.
TEST(PowerNorm, SecondReadMatchesSingleRead) {
  for (const std::int64_t warmup : {0, 5}) {
    const Tensor x = random_tensor({batch, time, width}, 1, 2), dy = random_tensor(x.shape(), 2);
    const Tensor more = random_tensor(x.shape(), 3);
    std::vector<Values> found;
    for (const bool twice : {false, true}) {
      Parameters parameters = testing::one_process_parameters();
      const Norm norm = power_norm_of(parameters, warmup);
      testing::allocate_randomly(parameters, 1);
      for (int step = 0; step < 2; ++step) {
        ForwardContext pass = step_pass(step);
        pass.decisions = std::make_shared<DecisionCache>();
        const Variable leaf = Variable::leaf(x.clone());
        std::vector<Variable> y = {norm(leaf, pass, {})};
        y.push_back(twice ? norm.second_read(leaf, pass, {}) : y.front());
        backward(y, {dy.clone(), more.clone()});
        parameters.end_step(true);
        found.push_back(values_of(leaf.gradient()));
      }
      found.push_back(values_of(parameters.power_statistics().front()->slope));
      found.push_back(values_of(parameters.power_statistics().front()->square));
    }
    for (std::size_t i = 0; i < 4; ++i) expect_close(found[i + 4], found[i], 1e-13);
  }
}

// Neither a batch in two parts nor a gradient scale changes the averages.
TEST(PowerNorm, MatchesPaperAfterWarmup) {
  Parameters parameters = testing::one_process_parameters();
  const Norm norm = power_norm_of(parameters, 0);
  testing::allocate_randomly(parameters, 1);
  Reference reference;
  const Values gain = values_of(parameters.named("norm/weight").master);
  const PowerStatistics& found = *parameters.power_statistics().front();
  for (int step = 0; step < 4; ++step) {
    const bool padded = step % 2 == 1;
    const double scale = step == 2 ? 8 : 1;
    const auto seed = static_cast<std::uint64_t>(step);
    const Tensor x = random_tensor({batch, time, width}, 10 + seed, 2);
    const Tensor dy = random_tensor({batch, time, width}, 20 + seed);
    ForwardContext pass = step_pass(step);
    pass.gradient_scale = scale;
    Values dx;
    for (std::int64_t row = 0; row < batch; ++row) {
      const Variable part = Variable::leaf(x.slice(row, row + 1).clone());
      const Tensor length = padded ? lengths().slice(row, row + 1) : Tensor();
      Tensor above = dy.slice(row, row + 1).clone();
      for (double& value : above.span<double>()) value *= scale;
      backward({norm(part, pass, length)}, {above});
      for (const double value : values_of(part.gradient())) dx.push_back(value / scale);
    }
    parameters.end_step(true);
    const Values counted = padded ? Values{1, 1, 1, 1, 1, 1, 0, 0} : Values(batch * time, 1);
    expect_close(dx, reference.step(values_of(x), values_of(dy), gain, counted), 1e-13);
    expect_close(values_of(found.square), reference.square, 1e-13);
    expect_close(values_of(found.slope), reference.slope, 1e-13);
  }
}

TEST(PowerNorm, UpdatesStatisticsOncePerTrainingPass) {
  Parameters parameters = testing::one_process_parameters();
  const Norm norm = power_norm_of(parameters, 0);
  parameters.allocate(Random(1));
  const PowerStatistics& found = *parameters.power_statistics().front();
  const Variable x(random_tensor({batch, time, width}, 1));
  norm(x);
  norm(x, ForwardContext(), {});
  ForwardContext asking = step_pass(0);
  asking.updates_statistics = false;
  norm(x, asking, {});
  EXPECT_EQ(values_of(found.sums), Values(2 * width + 1, 0));
  ForwardContext again = step_pass(0);
  again.decisions = std::make_shared<DecisionCache>();
  norm(x, again, {});
  const Values once = values_of(found.sums);
  EXPECT_EQ(once.back(), batch * time);
  norm(x, again, {});
  EXPECT_EQ(values_of(found.sums), once);
  parameters.end_step(false);
  EXPECT_EQ(values_of(found.square), Values(width, 1));
}

}  // namespace
}  // namespace longspan::power_norm_test
