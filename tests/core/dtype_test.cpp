#include "framework/core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace longspan::dtype_test {
namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();

TEST(BFloat16, RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    BFloat16 number;
    number.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(number);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(value)))) << bits;
    else
      EXPECT_EQ(BFloat16(value).bits, bits);
  }
}

TEST(BFloat16, RoundsToNearestTiesToEven) {
  const auto rounded = [](float value) { return static_cast<float>(BFloat16(value)); };
  EXPECT_EQ(rounded(1 + 0x1p-8f), 1.0f);                    // a tie, down to even
  EXPECT_EQ(rounded(1 + 0x3p-8f), 1 + 0x1p-6f);             // a tie, up to even
  EXPECT_EQ(rounded(1 + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);  // above the tie
  EXPECT_EQ(rounded(1 + 0x1p-8f - 0x1p-20f), 1.0f);         // below
  EXPECT_EQ(rounded(-1 - 0x3p-8f), -1 - 0x1p-6f);
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), infinite);
  EXPECT_EQ(rounded(-infinite), -infinite);
  EXPECT_EQ(rounded(0x1p-133f), 0x1p-133f);  // the smallest subnormal
  EXPECT_TRUE(std::signbit(rounded(-0.0f)));
}

TEST(BFloat16, PreservesNanForEveryPayload) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu})
    EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(bits))))) << bits;
}

TEST(Float16, RoundsToNearestTiesToEven) {
  const auto rounded = [](float value) { return static_cast<float>(Float16(value)); };
  EXPECT_EQ(rounded(1 + 0x1p-11f), 1.0f);
  EXPECT_EQ(rounded(1 + 0x3p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(rounded(65504), 65504);
  EXPECT_EQ(rounded(65519), 65504);
  EXPECT_EQ(rounded(65520), infinite);
  EXPECT_EQ(rounded(0x1p-24f), 0x1p-24f);
  EXPECT_EQ(rounded(0x1p-25f), 0.0f);
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
}

TEST(DType, RoundTripsNamesAndReportsSizes) {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8})
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(size_of(DType::i64), 8u);
  EXPECT_EQ(size_of(DType::i32), 4u);
  EXPECT_FALSE(is_floating(DType::i32) || is_floating(DType::i64) || is_floating(DType::u8));
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(accumulator_of(DType::f64), DType::f64);
  EXPECT_EQ(accumulator_of(DType::f16), DType::f32);
  EXPECT_THROW(parse_dtype("float"), DataError);
}

TEST(DType, FloatingDispatchRejectsIntegers) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    EXPECT_EQ(with_floating_type(
                  dtype, [](auto tag) { return DTypeOf<typename decltype(tag)::type>::value; }),
              dtype);
  EXPECT_THROW(with_floating_type(DType::i64, [](auto) {}), Failure);
}

}  // namespace
}  // namespace longspan::dtype_test
