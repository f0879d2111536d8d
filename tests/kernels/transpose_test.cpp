#include "framework/kernels/transpose.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::transpose_test {
namespace {

using namespace longspan::testing;

template <typename T>
class TransposeTest : public ::testing::Test {};
TYPED_TEST_SUITE(TransposeTest, FloatingTypes);

TYPED_TEST(TransposeTest, ExchangesRowsAndColumnsOfEachMatrix) {
  const Shape shapes[] = {
      {1, 1, 1}, {2, 3, 5}, {3, 1, 40}, {1, 33, 31}, {2, 100, 128}, {1, 300, 257}, {2, 0, 4}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.to_string());
    const Tensor x = tensor_of<TypeParam>(normal_values<TypeParam>(shape.elements(), 1), shape);
    const Tensor y = poisoned<TypeParam>({shape[0], shape[2], shape[1]});
    transpose(backend(), x, y);
    const Values from = values_of(x);
    Values expected;
    for (std::int64_t o = 0; o < shape[0]; ++o)
      for (std::int64_t j = 0; j < shape[2]; ++j)
        for (std::int64_t i = 0; i < shape[1]; ++i)
          expected.push_back(from[static_cast<std::size_t>((o * shape[1] + i) * shape[2] + j)]);
    EXPECT_EQ(values_of(y), expected);
    const Tensor back = poisoned<TypeParam>(shape);
    transpose(backend(), y, back);
    EXPECT_TRUE(same_bits(back, x));
  }
}

TEST(Transpose, RejectsMismatchedShapesAndDTypes) {
  const Tensor x = Tensor::zeros({1, 2, 3}, DType::f32, backend_device());
  EXPECT_THROW(transpose(backend(), x, Tensor::zeros({1, 2, 3}, DType::f32, backend_device())),
               Failure);
  EXPECT_THROW(transpose(backend(), x, Tensor::zeros({1, 3, 2}, DType::f64, backend_device())),
               Failure);
}

}  // namespace
}  // namespace longspan::transpose_test
