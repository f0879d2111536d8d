#include "framework/kernels/attention/sinks.h"

#include <cmath>

#include "tests/kernels/kernel_testing.h"

namespace longspan::sinks_test {
namespace {

using namespace longspan::testing;

template <typename T>
class SinksTest : public ::testing::Test {};
TYPED_TEST_SUITE(SinksTest, FloatingTypes);

constexpr std::int64_t batch = 2, time = 3, heads = 4, dim = 5;

// One row has no keys: its sum is minus infinity.
TYPED_TEST(SinksTest, MatchesSoftmaxDefinitionAndGradient) {
  using A = Accumulator<TypeParam>;
  const Values sink = normal_values<A>(heads, 1),
               dout = normal_values<TypeParam>(batch * time * heads * dim, 4);
  Values out = normal_values<TypeParam>(batch * time * heads * dim, 2);
  Values sums = normal_values<A>(batch * heads * time, 3);
  sums[5] = -infinity;
  Values joined = out, joined_sums = sums, dsink;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < time; ++i)
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto place = static_cast<std::size_t>((b * heads + h) * time + i);
        const auto row = static_cast<std::size_t>(((b * time + i) * heads + h) * dim);
        const double of_head = sink[static_cast<std::size_t>(h)];
        const double all = std::exp(sums[place]) + std::exp(of_head);
        joined_sums[place] = std::log(all);
        if (std::isinf(sums[place]))
          std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(row), dim, 0.0);
        double product = 0;
        for (std::size_t c = row; c < row + dim; ++c) {
          joined[c] = rounded<TypeParam>(out[c] * std::exp(sums[place]) / all);
          product += joined[c] * dout[c];
        }
        dsink.push_back(-std::exp(of_head) / all * product);
      }
  const Tensor sinks = tensor_of<A>(sink, {heads});
  const Tensor rows = tensor_of<TypeParam>(out, {batch, time, heads, dim});
  const Tensor row_sums = tensor_of<A>(sums, {batch, heads, time});
  join_sinks(backend(), sinks, rows, row_sums);
  expect_close(values_of(rows), joined, tolerance<TypeParam>(), 1e-3);
  expect_close(values_of(row_sums), joined_sums, tolerance<A>(), 1e-3);
  const Tensor gradient = poisoned<A>({batch, time, heads});
  sink_gradients(backend(),
                 {.sink = sinks,
                  .out = rows,
                  .log_sum_exp = row_sums,
                  .dout = tensor_of<TypeParam>(dout, {batch, time, heads, dim}),
                  .dsink = gradient});
  expect_close(values_of(gradient), dsink, tolerance<TypeParam>(), 1e-3);
}

}  // namespace
}  // namespace longspan::sinks_test
