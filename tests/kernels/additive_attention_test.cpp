#include "framework/kernels/attention/additive.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::additive_attention_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t batch = 2, time = 4, keys = 5, heads = 2, dim = 3, value_dim = 2, taps = 3;
constexpr std::int64_t lengths[batch] = {5, 2};

std::size_t place(
    std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t of_b, std::int64_t of_c) {
  return static_cast<std::size_t>((a * of_b + b) * of_c + c);
}

struct Case {
  bool causal = false;  // keys and queries from position 0
  bool located = false;
  bool padded = false;  // by lengths
  bool before = false;
};
const std::vector<Case> cases = {{},
                                 {.causal = true},
                                 {.padded = true},
                                 {.located = true},
                                 {.causal = true, .located = true, .padded = true, .before = true}};

// Reference in double.
template <typename T>
struct Inputs {
  using A = Accumulator<T>;
  Values query = normal_values<T>(batch * time * heads * dim, 1);
  Values key = normal_values<T>(batch * keys * heads * dim, 2);
  Values value = normal_values<T>(batch * keys * heads * value_dim, 3);
  Values weight = normal_values<A>(heads * dim, 4);
  Values tap = normal_values<A>(heads * taps * dim, 5);
  Values before = normal_values<A>(batch * heads * keys, 6);

  AdditiveAttention call(const Case& c) const {
    AdditiveAttention call = {.query = tensor_of<T>(query, {batch, time, heads, dim}),
                              .key = tensor_of<T>(key, {batch, keys, heads, dim}),
                              .value = tensor_of<T>(value, {batch, keys, heads, value_dim}),
                              .weight = tensor_of<A>(weight, {heads, dim}),
                              .causal = c.causal,
                              .out = poisoned<T>({batch, time, heads, value_dim})};
    if (c.padded) call.length = ids_of({lengths[0], lengths[1]});
    if (c.located) {
      call.kernel_size = tensor_of<A>(tap, {heads, taps, dim});
      call.probabilities = poisoned<A>({batch, heads, time, keys});
      if (c.before) call.before = tensor_of<A>(before, {batch, heads, keys});
    } else {
      call.log_sum_exp = poisoned<A>({batch, heads, time});
    }
    return call;
  }

  double score(const Case& c,
               std::int64_t b,
               std::int64_t h,
               std::int64_t i,
               std::int64_t j,
               const Values& last) const {
    double sum = 0;
    for (std::int64_t d = 0; d < dim; ++d) {
      double inside =
          query[place(b * time + i, h, d, heads, dim)] + key[place(b * keys + j, h, d, heads, dim)];
      for (std::int64_t r = 0; c.located && r < taps; ++r)
        if (const std::int64_t at = j + r - taps / 2; at >= 0 && at < keys)
          inside += tap[place(h, r, d, taps, dim)] * last[static_cast<std::size_t>(at)];
      sum += weight[static_cast<std::size_t>(h * dim + d)] * std::tanh(inside);
    }
    return sum;
  }

  Values out(const Case& c) const {
    Values result(batch * time * heads * value_dim, 0);
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h) {
        Values last(keys, 0);
        for (std::size_t j = 0; c.before && j < keys; ++j)
          last[j] = before[place(b, h, static_cast<std::int64_t>(j), heads, keys)];
        for (std::int64_t i = 0; i < time; ++i) {
          Values p(keys, 0);
          double total = 0;
          for (std::int64_t j = 0; j < keys; ++j)
            if (!(c.causal && j > i) && !(c.padded && j >= lengths[b]))
              total += p[static_cast<std::size_t>(j)] = std::exp(score(c, b, h, i, j, last));
          for (std::int64_t j = 0; j < keys; ++j)
            for (std::int64_t d = 0; d < value_dim; ++d)
              result[place(b * time + i, h, d, heads, value_dim)] +=
                  p[static_cast<std::size_t>(j)] / total *
                  value[place(b * keys + j, h, d, heads, value_dim)];
          for (double& each : p) each /= total;
          last = p;
        }
      }
    return result;
  }
};

template <typename T>
class AdditiveAttentionTest : public ::testing::Test {};
TYPED_TEST_SUITE(AdditiveAttentionTest, FloatingTypes);

constexpr double tolerance_of(DType dtype) {
  return dtype == DType::f64 ? 1e-13 : (dtype == DType::f32 ? 1e-5 : 2e-2);
}

TYPED_TEST(AdditiveAttentionTest, MatchesSoftmaxDefinition) {
  const Inputs<TypeParam> inputs;
  for (const Case& c : cases) {
    const AdditiveAttention call = inputs.call(c);
    additive_attention(backend(), call);
    expect_close(values_of(call.out), inputs.out(c), tolerance_of(DTypeOf<TypeParam>::value));
  }
}

// Near 0, tanh keeps its relative precision, which 2 sigmoid(2x) - 1 would lose.
TEST(AdditiveAttention, KeepsPrecisionOfSmallScores) {
  constexpr double x = 1.25e-5, large = 1e4;
  const AdditiveAttention call = {.query = tensor_of<float>({x}, {1, 1, 1, 1}),
                                  .key = tensor_of<float>({0}, {1, 1, 1, 1}),
                                  .value = tensor_of<float>({1}, {1, 1, 1, 1}),
                                  .weight = tensor_of<float>({large}, {1, 1}),
                                  .out = poisoned<float>({1, 1, 1, 1}),
                                  .log_sum_exp = poisoned<float>({1, 1, 1})};
  additive_attention(backend(), call);
  EXPECT_NEAR(values_of(call.log_sum_exp).at(0), large * std::tanh(x), 1e-6);
}

// A query without keys has a zero output and passes no gradient.
TEST(AdditiveAttention, ReturnsZeroOutputAndGradientsWithoutKeys) {
  const Inputs<float> inputs;
  for (const bool located : {false, true}) {
    AdditiveAttention call = inputs.call({.located = located});
    call.length = ids_of({0, 3});
    additive_attention(backend(), call);
    const std::size_t row = time * heads * value_dim;
    const Values out = values_of(call.out);
    EXPECT_EQ(Values(out.begin(), out.begin() + row), Values(row, 0));
    AdditiveAttentionGradient gradient = {
        .forward = call,
        .dout = call.out.clone(),
        .scratch = located ? poisoned<float>({batch, heads, 2, keys})
                           : poisoned<float>({batch, heads, time}),
        .dquery = poisoned<float>(call.query.shape()),
        .dkey = poisoned<float>(call.key.shape()),
        .dvalue = poisoned<float>(call.value.shape()),
        .dweight = located ? poisoned<float>({batch, heads, dim})
                           : poisoned<float>({batch * time, heads, dim})};
    if (located) gradient.dtaps = poisoned<float>({batch, heads, taps, dim});
    additive_attention_backward(backend(), gradient);
    const Values dquery = values_of(gradient.dquery), dkey = values_of(gradient.dkey);
    for (std::size_t i = 0; i < time * heads * dim; ++i) EXPECT_EQ(dquery[i], 0);
    for (std::size_t i = 0; i < keys * heads * dim; ++i) EXPECT_EQ(dkey[i], 0);
    for (const double value : dkey) EXPECT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace longspan::additive_attention_test
