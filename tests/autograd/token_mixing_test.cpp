// Mixing of tokens without attention: gradients, and identities of each method.
#include "framework/autograd/token_mixing.h"

#include <numbers>

#include "framework/autograd/attention_free.h"
#include "framework/autograd/sequence_products.h"
#include "tests/support/gradient_check.h"

namespace longspan::token_mixing_test {
namespace {

using testing::backend_device;
using testing::expect_close;
using testing::expect_gradients;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

TEST(AttentionFreeMixing, GradientsMatchDifferences) {
  for (const bool causal : {false, true})
    for (const std::int64_t window : {1, 3, 9}) {
      SCOPED_TRACE(::testing::Message() << "window " << window << ", causal " << causal);
      expect_gradients(
          [&](const std::vector<Variable>& in) {
            return attention_free(in[0], in[1], in[2], {.causal = causal, .window = window});
          },
          {random_tensor({2, 6, 3}, 1), random_tensor({2, 6, 3}, 2), random_tensor({7, 7}, 3)});
    }
  expect_gradients(
      [](const std::vector<Variable>& in) { return attention_free(in[0], in[1], {}, {}); },
      {random_tensor({2, 6, 3}, 1), random_tensor({2, 6, 3}, 2)});
}

TEST(AttentionFreeMixing, ZeroBiasesChangeNothing) {
  const Variable key(random_tensor({2, 6, 3}, 1)), value(random_tensor({2, 6, 3}, 2));
  const Variable zeros(Tensor::zeros({6, 6}, DType::f64, backend_device()));
  for (const bool causal : {false, true}) {
    const Values simple = values_of(attention_free(key, value, {}, {.causal = causal}).value());
    for (const std::int64_t window : {2, 6})
      expect_close(
          values_of(
              attention_free(key, value, zeros, {.causal = causal, .window = window}).value()),
          simple,
          1e-13);
  }
}

// x transformed over time and features, by the sums of its definition.
Values fourier(const Tensor& x) {
  const std::int64_t batch = x.shape()[0], time = x.shape()[1], width = x.shape()[2];
  Values y;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t k = 0; k < time; ++k)
      for (std::int64_t f = 0; f < width; ++f) {
        double sum = 0;
        for (std::int64_t t = 0; t < time; ++t)
          for (std::int64_t c = 0; c < width; ++c) {
            const auto turns = static_cast<double>(k * t % time) / static_cast<double>(time) +
                               static_cast<double>(f * c % width) / static_cast<double>(width);
            sum += std::cos(2 * std::numbers::pi * turns) *
                   x.data<double>()[(b * time + t) * width + c];
          }
        y.push_back(sum);
      }
  return y;
}

Variable transformed(const Variable& x) {
  const Shape& shape = x.shape();
  const FourierTransform over_time(shape[1], DType::f64, backend_device());
  return linear(over_time(x),
                Variable(fourier_features(shape[2], 0, shape[2], 1, DType::f64, backend_device())),
                Variable());
}

// Primes, short lengths and lengths in two steps.
TEST(FourierMixing, MatchesDefinition) {
  for (const std::int64_t time : {1, 2, 7, 12, 64, 67, 90, 121}) {
    SCOPED_TRACE(time);
    const Tensor x = random_tensor({2, time, 5}, 4);
    expect_close(values_of(transformed(Variable(x)).value()), fourier(x), 1e-11);
  }
}

TEST(FourierMixing, TwiceReversesBothAxes) {
  const std::int64_t time = 72, width = 6;
  const Tensor x = random_tensor({1, time, width}, 5);
  Values expected;
  for (std::int64_t t = 0; t < time; ++t)
    for (std::int64_t c = 0; c < width; ++c) {
      const std::int64_t back = (time - t) % time * width + (width - c) % width;
      expected.push_back(static_cast<double>(time * width) / 2 *
                         (x.data<double>()[t * width + c] + x.data<double>()[back]));
    }
  expect_close(values_of(transformed(transformed(Variable(x))).value()), expected, 1e-11);
}

TEST(FourierMixing, GradientsMatchDifferences) {
  for (const std::int64_t time : {5, 66})
    expect_gradients([](const std::vector<Variable>& in) { return transformed(in[0]); },
                     {random_tensor({2, time, 3}, 6)});
}

TEST(SpatialGate, GradientsMatchDifferences) {
  for (const bool causal : {false, true})
    for (const std::int64_t heads : {1, 2})
      for (const std::int64_t begin : {0, 3}) {
        SCOPED_TRACE(::testing::Message() << causal << " " << heads << " " << begin);
        expect_gradients(
            [&](const std::vector<Variable>& in) {
              return spatial_gate(
                  in[0], {.weight = in[1], .bias = in[2], .causal = causal, .begin = begin});
            },
            {random_tensor({2, 5, 4}, 1),
             random_tensor({heads, 6, 6}, 2),
             random_tensor({heads, 6}, 3)});
      }
}

TEST(SpatialGate, BeginsAsOne) {
  const Variable gate =
      spatial_gate(Variable(random_tensor({2, 5, 4}, 1)),
                   {.weight = Variable(Tensor::zeros({2, 5, 5}, DType::f64, backend_device())),
                    .bias = Variable(testing::tensor_of<double>(Values(10, 1), {2, 5}))});
  expect_close(values_of(gate.value()), Values(40, 1), 0);
}

TEST(SpatialGate, CausalGateReadsNoLaterToken) {
  const Variable weight(random_tensor({2, 6, 6}, 2)), bias(random_tensor({2, 6}, 3));
  const Tensor u = random_tensor({1, 6, 4}, 1), changed = u.clone();
  changed.data<double>()[4 * 4 + 1] += 1;  // position 4
  const auto gate = [&](const Tensor& x) {
    return values_of(
        spatial_gate(Variable(x), {.weight = weight, .bias = bias, .causal = true}).value());
  };
  const Values before = gate(u), after = gate(changed);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool is_later = i >= 16, is_changed = is_later && i % 4 == 1;
    EXPECT_TRUE(is_later || before[i] == after[i]) << i;
    EXPECT_TRUE(!is_changed || before[i] != after[i]) << i;
  }
}

TEST(TokenMixing, GradientsMatchDifferences) {
  expect_gradients(
      [](const std::vector<Variable>& in) {
        return mix_tokens(in[0], {.in = in[1], .in_bias = in[2], .out = in[3], .out_bias = in[4]});
      },
      {random_tensor({2, 5, 3}, 1),
       random_tensor({4, 5}, 2),
       random_tensor({4}, 3),
       random_tensor({5, 4}, 4),
       random_tensor({5}, 5)});
}

}  // namespace
}  // namespace longspan::token_mixing_test
