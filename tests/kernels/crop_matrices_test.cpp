// Leading parts of matrices over positions, and the gradient of the whole.
#include "framework/kernels/crop_matrices.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::crop_matrices_test {
namespace {

using namespace longspan::testing;

constexpr std::int64_t count = 2, positions = 6, columns = 5;

template <typename T>
class CropMatrices : public ::testing::Test {};
TYPED_TEST_SUITE(CropMatrices, FloatingTypes);

TYPED_TEST(CropMatrices, MatchesDefinition) {
  using A = Accumulator<TypeParam>;
  const Values whole = normal_values<TypeParam>(count * positions * columns, 1);
  for (const bool causal : {false, true})
    for (const std::int64_t begin : {0, 2})
      for (const std::int64_t width : {1, 3, 5}) {
        SCOPED_TRACE(::testing::Message() << causal << " " << begin << " " << width);
        const std::int64_t rows = positions - begin - 1;
        const Values upstream = normal_values<TypeParam>(count * rows * width, 2);
        const Values before = normal_values<A>(count * positions * columns, 3);
        Values part, gradient = before;
        for (std::int64_t n = 0; n < count; ++n)
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < width; ++j) {
              const auto at = static_cast<std::size_t>((n * positions + begin + i) * columns + j);
              const bool is_masked = causal && j > begin + i;
              if (!is_masked) gradient[at] += upstream[part.size()];
              part.push_back(is_masked ? 0 : whole[at]);
            }
        const Tensor found = poisoned<TypeParam>({count, rows, width});
        crop_matrices(backend(),
                      {.whole = tensor_of<TypeParam>(whole, {count, positions, columns}),
                       .part = found,
                       .begin = begin,
                       .causal = causal});
        expect_close(values_of(found), part, 0);
        const Tensor sum = tensor_of<A>(before, {count, positions, columns});
        add_cropped(backend(),
                    {.whole = sum,
                     .part = tensor_of<TypeParam>(upstream, {count, rows, width}),
                     .begin = begin,
                     .causal = causal});
        expect_close(values_of(sum), gradient, tolerance<A>());
      }
}

TEST(CropMatrices, RejectsOtherShapes) {
  const Tensor whole = poisoned<double>({1, 4, 4});
  EXPECT_THROW(crop_matrices(backend(), {.whole = whole, .part = poisoned<double>({1, 4, 5})}),
               Failure)
      << "columns";
  EXPECT_THROW(
      crop_matrices(backend(), {.whole = whole, .part = poisoned<double>({1, 4, 4}), .begin = 1}),
      Failure)
      << "rows";
}

}  // namespace
}  // namespace longspan::crop_matrices_test
