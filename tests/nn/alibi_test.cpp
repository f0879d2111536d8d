// The slopes of linear biases (Press et al. 2022).
#include <gtest/gtest.h>

#include <cmath>

#include "framework/nn/attention/softmax_attention.h"
#include "tests/nn/attention_kinds_testing.h"
#include "tests/nn/layer_testing.h"

namespace longspan::alibi_test {
namespace {

using testing::expect_close;
using testing::random_tensor;
using testing::Values;
using testing::values_of;

TEST(Alibi, SlopesMatchPaper) {
  expect_close(alibi_slopes(8),
               Values{1 / 2., 1 / 4., 1 / 8., 1 / 16., 1 / 32., 1 / 64., 1 / 128., 1 / 256.},
               1e-15);
  expect_close(alibi_slopes(1), Values{1 / 256.}, 1e-15);
  // Three heads: the slopes of two heads, then the first of four.
  expect_close(alibi_slopes(3), Values{1 / 16., 1 / 256., 1 / 4.}, 1e-15);
}

TEST(Alibi, SubtractsSlopeTimesDistanceFromScores) {
  using namespace testing::kinds;
  constexpr std::int64_t time = 7;
  Parameters parameters = testing::one_process_parameters();
  const RelativeTerms distances = {.slopes = alibi_slopes(Scope(parameters), heads)};
  const SoftmaxAttention attention(0, {}, distances);
  const std::vector<double> slopes = alibi_slopes(heads);
  std::vector<Tensor> x;
  for (const std::uint64_t seed : {1, 2, 3})
    x.push_back(random_tensor({batch, time, heads, dim}, seed));
  for (const bool causal : {true, false}) {
    AttentionContext context;
    if (!causal) context.mask.rules = masks::everything();
    const Variable y = attention({.query = Variable(x[0]),
                                  .key = Variable(x[1]),
                                  .value = Variable(x[2]),
                                  .heads = all_heads},
                                 context,
                                 ForwardContext());
    const auto at = [&](std::size_t i, std::int64_t b, std::int64_t t, std::int64_t h) {
      return x[i].data<double>() + ((b * time + t) * heads + h) * dim;
    };
    Values expected;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t p = 0; p < time; ++p)
        for (std::int64_t h = 0; h < heads; ++h) {
          Values row(static_cast<std::size_t>(dim), 0);
          double total = 0;
          for (std::int64_t k = 0; k < (causal ? p + 1 : time); ++k) {
            const double score =
                dot(at(0, b, p, h), at(1, b, k, h), dim) / std::sqrt(static_cast<double>(dim)) -
                slopes[static_cast<std::size_t>(h)] * std::abs(static_cast<double>(p - k));
            total += std::exp(score);
            add_to(row.data(), std::exp(score), at(2, b, k, h), dim);
          }
          for (const double value : row) expected.push_back(value / total);
        }
    expect_close(values_of(y.value()), expected, 1e-12);
  }
}

}  // namespace
}  // namespace longspan::alibi_test
