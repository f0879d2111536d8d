#include <cmath>

#include "framework/kernels/rows.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::token_span_test {
namespace {

using namespace longspan::testing;

template <typename T>
class TokenSpansTest : public ::testing::Test {};
TYPED_TEST_SUITE(TokenSpansTest, FloatingTypes);

TYPED_TEST(TokenSpansTest, MatchesScaledSigmoidAndDerivative) {
  using A = Accumulator<TypeParam>;
  constexpr double limit = 50;
  constexpr std::int64_t heads = 3;
  const Values bias = normal_values<A>(heads, 3);
  for (const std::int64_t rows : {0, 1, 17, 1000}) {
    const std::int64_t count = rows * heads;
    const Values x = normal_values<TypeParam>(count, 1);
    Values z;
    for (std::size_t i = 0; i < x.size(); ++i)
      z.push_back(limit / (1 + std::exp(-x[i] - bias[i % heads])));
    const Tensor from = tensor_of<TypeParam>(x, {rows, heads}), to = poisoned<A>({rows, heads});
    token_spans(backend(), limit, from, tensor_of<A>(bias, {heads}), to);
    expect_close(values_of(to), z, std::max(1e-6 * (sizeof(A) == 4), 1e-14), 1e-6);
    const Values dz = normal_values<A>(count, 2);
    Values dx;
    for (std::size_t i = 0; i < z.size(); ++i) dx.push_back(dz[i] * z[i] * (1 - z[i] / limit));
    const Tensor gradient = poisoned<TypeParam>({rows, heads});
    token_spans_backward(backend(), limit, to, tensor_of<A>(dz, {rows, heads}), gradient);
    expect_close(values_of(gradient), dx, tolerance<TypeParam>(), 1e-3);
  }
}

}  // namespace
}  // namespace longspan::token_span_test
