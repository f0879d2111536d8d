#include "framework/kernels/outer_rows.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan {
namespace {

using namespace longspan::testing;

template <typename T>
class OuterRowsOf : public ::testing::Test {};
TYPED_TEST_SUITE(OuterRowsOf, FloatingTypes);

TYPED_TEST(OuterRowsOf, AreTheFirstProductsAndTheirGradients) {
  constexpr std::int64_t rows = 3, a = 4, c = 3;
  const Values x = normal_values<TypeParam>(rows * a, 1), z = normal_values<TypeParam>(rows * c, 2);
  for (const std::int64_t n : {1, 10, 12}) {
    const Values dy = normal_values<TypeParam>(rows * n, 3);
    const Tensor left = tensor_of<TypeParam>(x, {rows, a}),
                 right = tensor_of<TypeParam>(z, {rows, c});
    const OuterRows outer = {.x = left, .z = right, .y = poisoned<TypeParam>({rows, n})};
    outer_rows(backend(), outer);
    const OuterRowsGradient gradient = {.x = left,
                                        .z = right,
                                        .dy = tensor_of<TypeParam>(dy, {rows, n}),
                                        .dx = poisoned<TypeParam>({rows, a}),
                                        .dz = poisoned<TypeParam>({rows, c})};
    outer_rows_backward(backend(), gradient);
    Values y, dx(rows * a, 0), dz(rows * c, 0);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < n; ++j) {
        const auto p = static_cast<std::size_t>(r * a + j % a);
        const auto q = static_cast<std::size_t>(r * c + j / a);
        y.push_back(x[p] * z[q]);
        dx[p] += dy[static_cast<std::size_t>(r * n + j)] * z[q];
        dz[q] += dy[static_cast<std::size_t>(r * n + j)] * x[p];
      }
    expect_close(values_of(outer.y), y, tolerance<TypeParam>());
    expect_close(values_of(gradient.dx), dx, 2 * tolerance<TypeParam>());
    expect_close(values_of(gradient.dz), dz, 2 * tolerance<TypeParam>());
  }
}

}  // namespace
}  // namespace longspan
