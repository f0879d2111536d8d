#include "framework/kernels/l2_normalize.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::l2_normalize_test {
namespace {

using namespace longspan::testing;

template <typename T>
class L2NormalizeTest : public ::testing::Test {};
TYPED_TEST_SUITE(L2NormalizeTest, FloatingTypes);

TYPED_TEST(L2NormalizeTest, ReturnsUnitRowsAndKeepsZeroRows) {
  using A = Accumulator<TypeParam>;
  for (const std::int64_t width : {1, 3, 64, 70}) {
    Values x = normal_values<TypeParam>(5 * width, 1);
    for (std::int64_t c = 0; c < width; ++c)  // short rows get length one too
      x[static_cast<std::size_t>(c)] = rounded<TypeParam>(1e-3 * x[static_cast<std::size_t>(c)]);
    std::fill_n(x.begin() + 2 * width, width, 0);
    const L2Normalize unit = {.x = tensor_of<TypeParam>(x, {5, width}),
                              .y = poisoned<TypeParam>({5, width}),
                              .inverse_norm = poisoned<A>({5})};
    l2_normalize(backend(), unit);
    Values expected, lengths;
    for (std::int64_t r = 0; r < 5; ++r) {
      double squares = 0;
      for (std::int64_t c = 0; c < width; ++c)
        squares +=
            x[static_cast<std::size_t>(r * width + c)] * x[static_cast<std::size_t>(r * width + c)];
      lengths.push_back(1 / std::max(std::sqrt(squares), 1e-12));
      for (std::int64_t c = 0; c < width; ++c)
        expected.push_back(x[static_cast<std::size_t>(r * width + c)] * lengths.back());
    }
    expect_close(values_of(unit.y), expected, tolerance<TypeParam>());
    expect_close(values_of(unit.inverse_norm), lengths, tolerance<A>());
  }
}

// The added gradient is orthogonal to y, because y does not depend on the length of its row.
TYPED_TEST(L2NormalizeTest, AddsGradientInBothDTypes) {
  using A = Accumulator<TypeParam>;
  constexpr std::int64_t width = 6;
  L2Normalize unit = {.x = tensor_of<TypeParam>(normal_values<TypeParam>(4 * width, 1), {4, width}),
                      .y = poisoned<TypeParam>({4, width}),
                      .inverse_norm = poisoned<A>({4})};
  l2_normalize(backend(), unit);
  const Values y = values_of(unit.y), inverse = values_of(unit.inverse_norm);
  const auto run = [&]<typename D>(TypeTag<D>) {
    const Values dy = normal_values<D>(4 * width, 2), before = normal_values<D>(4 * width, 3);
    const L2NormalizeGradient gradient = {.y = unit.y,
                                          .inverse_norm = unit.inverse_norm,
                                          .dy = tensor_of<D>(dy, {4, width}),
                                          .dx = tensor_of<D>(before, {4, width})};
    l2_normalize_backward(backend(), gradient);
    Values expected = before;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t row = i / width * width;
      double along = 0;
      for (std::size_t c = 0; c < width; ++c) along += y[row + c] * dy[row + c];
      expected[i] += (dy[i] - y[i] * along) * inverse[i / width];
    }
    expect_close(values_of(gradient.dx), expected, 2 * tolerance<D>());
  };
  run(TypeTag<TypeParam>());
  run(TypeTag<A>());
}

}  // namespace
}  // namespace longspan::l2_normalize_test
