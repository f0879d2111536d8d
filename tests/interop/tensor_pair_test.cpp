// Tensors of a Hugging Face model that consist of several tensors here.
#include <gtest/gtest.h>

#include <vector>

#include "framework/interop/architecture.h"

namespace longspan::testing::tensor_pair_test {
namespace {

Tensor counted(const Shape& shape, double first) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.elements(); ++i)
    values.push_back(static_cast<float>(first + static_cast<double>(i)));
  return Tensor::from<float>(values, shape, Device::cpu());
}

std::vector<float> values_of(const Tensor& tensor) {
  const auto values = tensor.span<float>();
  return {values.begin(), values.end()};
}

// Joins `parts` and takes them apart again.
Tensor joined(const TensorPair& pair, const std::vector<Tensor>& parts) {
  std::vector<Shape> here;
  for (const Tensor& part : parts) here.push_back(part.shape());
  const Tensor whole =
      Tensor::empty(hf_shape(pair, here), DType::f32, Device::cpu(), MemoryTag::workspace);
  for (std::size_t i = 0; i < parts.size(); ++i) put_part(pair, parts[i], here, i, whole);
  for (std::size_t i = 0; i < parts.size(); ++i)
    EXPECT_EQ(values_of(shard_range(pair, whole, here, i)), values_of(parts[i]));
  return whole;
}

TEST(TensorPair, AlternatesGroupsOfRows) {
  const Tensor whole = joined({.hf_name = "q", .longspan_names = {"a", "b"}, .groups = 2},
                              {counted({4, 2}, 0), counted({2, 2}, 100)});
  EXPECT_EQ(whole.shape(), (Shape{6, 2}));
  EXPECT_EQ(values_of(whole), (std::vector<float>{0, 1, 2, 3, 100, 101, 4, 5, 6, 7, 102, 103}));
}

TEST(TensorPair, ReshapesJoinedTensors) {
  const Tensor whole = joined({.hf_name = "conv", .longspan_names = {"a", "b"}, .shape = {3, 1, 2}},
                              {counted({2, 2}, 0), counted({1, 2}, 100)});
  EXPECT_EQ(whole.shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(values_of(whole), (std::vector<float>{0, 1, 2, 3, 100, 101}));
}

}  // namespace
}  // namespace longspan::testing::tensor_pair_test
