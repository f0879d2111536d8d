#include "framework/kernels/logistic_mixture.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::logistic_mixture_test {
namespace {

using namespace longspan::testing;

Tensor pixels_of(const std::vector<std::int64_t>& values, std::int64_t channels) {
  return Tensor::from<std::int64_t>(
      values, {std::ssize(values) / channels, channels}, backend_device());
}

template <typename T>
Values losses_of(const Values& parameters,
                 const std::vector<std::int64_t>& values,
                 std::int64_t channels,
                 std::int64_t mixtures) {
  const std::int64_t pixels = std::ssize(values) / channels;
  const LogisticMixture mixture = {
      .parameters = tensor_of<T>(parameters, {pixels, mixture_parameters(mixtures, channels)}),
      .values = pixels_of(values, channels),
      .mixtures = mixtures,
      .losses = poisoned<Accumulator<T>>({pixels})};
  logistic_mixture(backend(), mixture);
  return values_of(mixture.losses);
}

// Repeats the parameters for each pixel.
Values repeated(const Values& parameters, std::int64_t pixels) {
  Values all;
  for (std::int64_t i = 0; i < pixels; ++i)
    all.insert(all.end(), parameters.begin(), parameters.end());
  return all;
}

TEST(LogisticMixture, ProbabilitiesSumToOneOverAllValues) {
  std::vector<std::int64_t> values(256);
  for (std::size_t v = 0; v < 256; ++v) values[v] = static_cast<std::int64_t>(v);
  for (const double mean : {-3.0, -1.0, -0.2, 0.5, 0.999, 40.0})
    for (const double log_scale : {-30.0, -7.0, -5.0, -2.0, 0.0, 3.0, 20.0}) {
      // Two mixtures: logits, means, logarithms of scales.
      const Values parameters = {0.3, -1, mean, 0.1, log_scale, -3};
      double sum = 0;
      for (const double loss : losses_of<double>(repeated(parameters, 256), values, 1, 2))
        sum += std::exp(-loss);
      EXPECT_NEAR(sum, 1, 1e-11) << mean << " " << log_scale;
    }
}

// Blue given red and green: one mixture, whose channels are independent except for the means.
TEST(LogisticMixture, ConditionalColorProbabilitiesSumToOne) {
  std::vector<std::int64_t> values;
  for (std::int64_t v = 0; v < 256; ++v) values.insert(values.end(), {0, 255, v});
  const Values parameters = {0.7, 0.1, -1, 0.4, -0.3, -2, 0.8, 0.2, -1.5, -0.6};
  Values green = parameters;
  green[8] = 60;  // so wide that inner values of blue have almost no probability
  const double without = losses_of<double>(green, {0, 255, 255}, 3, 1)[0] - std::log(2);
  double sum = 0;
  for (const double loss : losses_of<double>(repeated(parameters, 256), values, 3, 1))
    sum += std::exp(without - loss);
  EXPECT_NEAR(sum, 1, 1e-11);
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// The literal definition, which loses precision for small probabilities.
double probability(std::int64_t value, double mean, double log_scale) {
  const double inverse = std::exp(-std::max(log_scale, -7.0));
  const double x = 2 * static_cast<double>(value) / 255 - 1 - mean;
  const double upper = value == 255 ? 1 : logistic(inverse * (x + 1.0 / 255));
  return upper - (value == 0 ? 0 : logistic(inverse * (x - 1.0 / 255)));
}

template <typename T>
class LogisticMixtureTest : public ::testing::Test {};
TYPED_TEST_SUITE(LogisticMixtureTest, FloatingTypes);

TYPED_TEST(LogisticMixtureTest, MatchesDefinition) {
  constexpr std::int64_t mixtures = 2, channels = 3, pixels = 8;
  const std::int64_t width = mixture_parameters(mixtures, channels);
  Values parameters = normal_values<TypeParam>(pixels * width, 1);
  for (double& value : parameters) value = rounded<TypeParam>(0.5 * value);
  std::vector<std::int64_t> values = {0,   255, 128, 255, 0, 0, 17, 200, 255, 90, 91,  92,
                                      255, 255, 255, 0,   0, 0, -1, -1,  -1,  3,  250, 77};
  Values expected;
  for (std::int64_t r = 0; r < pixels; ++r) {
    const double* const p = parameters.data() + r * width;
    const auto x = [&](std::int64_t c) {
      return 2 * static_cast<double>(values[static_cast<std::size_t>(r * 3 + c)]) / 255 - 1;
    };
    // Kind 0: means, 1: logarithms of scales, 2: coefficients.
    const auto at = [&](std::int64_t c, std::int64_t kind, std::int64_t k) {
      return p[mixtures * (1 + 3 * c + kind) + k];
    };
    double total = 0, joint = 0;
    for (std::int64_t k = 0; k < mixtures; ++k) {
      const double means[3] = {
          at(0, 0, k),
          at(1, 0, k) + std::tanh(at(0, 2, k)) * x(0),
          at(2, 0, k) + std::tanh(at(1, 2, k)) * x(0) + std::tanh(at(2, 2, k)) * x(1)};
      double product = std::exp(p[k]);
      total += product;
      for (std::int64_t c = 0; c < 3; ++c)
        product *= probability(values[static_cast<std::size_t>(r * 3 + c)], means[c], at(c, 1, k));
      joint += product;
    }
    expected.push_back(values[static_cast<std::size_t>(r * 3)] < 0 ? 0 : std::log(total / joint));
  }
  expect_close(losses_of<TypeParam>(parameters, values, channels, mixtures),
               expected,
               std::max(tolerance<Accumulator<TypeParam>>(), 1e-11));
}

TEST(LogisticMixture, GradientMatchesNumericalGradient) {
  for (const std::int64_t channels : {1, 3}) {
    constexpr std::int64_t mixtures = 3, pixels = 6;
    const std::int64_t width = mixture_parameters(mixtures, channels);
    Values parameters = normal_values<double>(pixels * width, 2);
    parameters[static_cast<std::size_t>(2 * mixtures)] = -9;  // below the minimum
    // Sharp: probabilities far below 1e-5.
    for (std::int64_t k = 0; k < mixtures; ++k)
      parameters[static_cast<std::size_t>(width + 2 * mixtures + k)] = -5;
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < pixels * channels; ++i) values.push_back(i * 47 % 256);
    values[static_cast<std::size_t>(channels)] = 255;
    for (std::int64_t c = 0; c < channels; ++c)
      values[static_cast<std::size_t>(5 * channels + c)] = -1;
    const Values weights = normal_values<double>(pixels, 3);
    const LogisticMixtureGradient mixture = {
        .parameters = tensor_of<double>(parameters, {pixels, width}),
        .values = pixels_of(values, channels),
        .mixtures = mixtures,
        .dlosses = tensor_of<double>(weights, {pixels}),
        .dparameters = poisoned<double>({pixels, width})};
    logistic_mixture_backward(backend(), mixture);
    const Values found = values_of(mixture.dparameters);
    constexpr double step = 1e-4;
    const auto loss = [&](std::size_t i, double by) {
      Values moved = parameters;
      moved[i] += by;
      const std::size_t r = i / static_cast<std::size_t>(width);
      return weights[r] * losses_of<double>(moved, values, channels, mixtures)[r];
    };
    for (std::size_t i = 0; i < parameters.size(); i += emulated ? 7 : 1) {
      const double slope =
          (8 * (loss(i, step) - loss(i, -step)) - (loss(i, 2 * step) - loss(i, -2 * step))) /
          (12 * step);
      EXPECT_NEAR(found[i], slope, 1e-8 * std::max(1.0, std::abs(slope))) << i;
    }
  }
}

}  // namespace
}  // namespace longspan::logistic_mixture_test
