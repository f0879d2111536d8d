#include "framework/kernels/rows.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::mask_padding_test {
namespace {

using namespace longspan::testing;

template <typename T>
class MaskPaddingTest : public ::testing::Test {};
TYPED_TEST_SUITE(MaskPaddingTest, FloatingTypes);

// Rows 1 to 3 of 5 have positions 2 to 4 of a sequence of 6. Rows 0 and 4 stay unchanged.
TYPED_TEST(MaskPaddingTest, ZerosOnlyPaddingRows) {
  constexpr std::int64_t batch = 2, time = 5, width = 6;
  const Values x = normal_values<TypeParam>(batch * time * width, 1);
  const Tensor length =
      Tensor::from<std::int64_t>(std::vector<std::int64_t>{4, 9}, {batch}, backend_device());
  std::vector<std::uint8_t> hidden(batch * 6, 0);
  hidden[6 + 3] = 1;  // position 3 of row 1
  const Tensor padding = Tensor::from<std::uint8_t>(hidden, {batch, 6}, backend_device());
  for (const bool by_length : {false, true})
    for (const bool by_padding : {false, true}) {
      const Tensor y = tensor_of<TypeParam>(x, {batch, time, 2, 3});
      MaskPadding hide = {.x = y, .y = y, .begin = 1, .end = 4, .position = 2};
      if (by_length) hide.length = length;
      if (by_padding) hide.padding = padding;
      mask_padding(backend(), hide);
      Values expected = x;
      const auto clear = [&](std::int64_t b, std::int64_t row) {
        std::fill_n(expected.begin() + (b * time + row) * width, width, 0);
      };
      if (by_length) clear(0, 3);  // position 4
      if (by_padding) clear(1, 2);
      EXPECT_EQ(values_of(y), expected);
    }
}

}  // namespace
}  // namespace longspan::mask_padding_test
