#include "framework/core/tensor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace longspan::tensor_test {
namespace {

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

Tensor counted(const Shape& shape, const Device& device) {
  return Tensor::from<float>(counting(static_cast<std::size_t>(shape.elements())), shape, device);
}

TEST(Shape, SupportsNegativeAxes) {
  const Shape shape = {2, 3, 4};
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape.width(), 4);
  EXPECT_EQ(shape.with(-2, 7), (Shape{2, 7, 4}));
  EXPECT_EQ(shape.to_string(), "[2, 3, 4]");
  EXPECT_THROW(shape[3], Failure);
  EXPECT_THROW(shape[-4], Failure);
}

TEST(Shape, CountsElementsForScalarAndEmptyAxis) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().to_string(), "[]");
  EXPECT_EQ((Shape{3, 0, 2}).elements(), 0);
  EXPECT_EQ((Shape{3, 0}).rows(), 3);
}

TEST(Shape, RejectsNegativeExtentsAndTooManyAxes) {
  EXPECT_THROW((Shape{1, -1}), Failure);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), Failure);
}

TEST(Shape, RejectsElementCountOverflow) {
  constexpr std::int64_t many = std::int64_t{1} << 30;
  EXPECT_NO_THROW(Shape({many, many / 4}));
  EXPECT_THROW(Shape({many, many}), ConfigurationError);
  EXPECT_THROW(Shape({many, many, many, many}), ConfigurationError);
  EXPECT_THROW(Shape({many, 1}).with(1, many), ConfigurationError);
}

TEST(Shape, EqualityComparesAxesAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
}

TEST(Tensor, ViewsShareElements) {
  const Tensor whole = counted({4, 3}, Device::cpu());
  const Tensor rows = whole.slice(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.data<float>(), whole.data<float>() + 3);
  const Tensor flat = rows.reshape({6});
  flat.data<float>()[0] = 100;
  EXPECT_EQ(whole.data<float>()[3], 100);
  EXPECT_EQ(whole.slice(4, 4).elements(), 0);
}

TEST(Tensor, RejectsInvalidViewsAndTypes) {
  const Tensor whole = counted({4, 3}, Device::cpu());
  EXPECT_THROW(whole.slice(3, 5), Failure);
  EXPECT_THROW(whole.slice(2, 1), Failure);
  EXPECT_THROW(whole.slice(-1, 1), Failure);
  EXPECT_THROW(whole.reshape({5, 3}), Failure);
  EXPECT_THROW(whole.data<double>(), Failure);
  EXPECT_THROW(Tensor().data<float>(), Failure);
  EXPECT_THROW(Tensor().device(), Failure);
}

TEST(Tensor, LastViewFreesElements) {
  const Device device = Device::cpu();
  Tensor view;
  {
    const Tensor whole = counted({4, 3}, device);
    EXPECT_TRUE(whole.is_unique());
    view = whole.slice(2, 4);
    EXPECT_FALSE(whole.is_unique());
  }
  EXPECT_TRUE(view.is_unique());
  EXPECT_EQ(view.data<float>()[0], 6);
  EXPECT_GT(device.allocator().report().total.live, 0);
  view = Tensor();
  EXPECT_EQ(device.allocator().report().total.live, 0);
}

TEST(Tensor, CopiesDoNotShareElements) {
  const Tensor source = counted({2, 3}, Device::cpu());
  const Tensor copy = source.clone();
  source.zero();
  EXPECT_EQ(copy.data<float>()[5], 5);
  EXPECT_EQ(source.data<float>()[5], 0);
  source.copy_from(copy.reshape({3, 2}));
  EXPECT_EQ(source.data<float>()[5], 5);
  EXPECT_THROW(source.copy_from(Tensor::zeros({6}, DType::f64, source.device())), Failure);
  EXPECT_THROW(source.copy_from(Tensor::zeros({5}, DType::f32, source.device())), Failure);
}

TEST(Tensor, FromRejectsMismatchedCount) {
  EXPECT_THROW(Tensor::from<float>(counting(5), {2, 3}, Device::cpu()), Failure);
}

TEST(Tensor, SupportsEmptyAndScalarShapes) {
  const Tensor none = Tensor::zeros({0, 4}, DType::bf16, Device::cpu());
  EXPECT_TRUE(none.defined());
  EXPECT_EQ(none.clone().elements(), 0);
  const Tensor scalar = Tensor::zeros({}, DType::f64, Device::cpu());
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_EQ(scalar.data<double>()[0], 0);
}

}  // namespace
}  // namespace longspan::tensor_test
