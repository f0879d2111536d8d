#include "framework/core/decimal.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace longspan::decimal_test {
namespace {

TEST(ParseInteger, ReturnsExactValue) {
  const std::pair<const char*, std::int64_t> cases[] = {
      {"0", 0},
      {"-0", 0},
      {"7", 7},
      {"+7", 7},
      {"-12", -12},
      {"9223372036854775807", std::numeric_limits<std::int64_t>::max()},
      {"-9223372036854775808", std::numeric_limits<std::int64_t>::min()},
      {"1e3", 1000},
      {"1E6", 1000000},
      {"1.5e3", 1500},
      {"1.50e1", 15},
      {"1200e-2", 12},
      {"0e99999999999", 0},
      {"9.223372036854775807e18", std::numeric_limits<std::int64_t>::max()},
  };
  for (const auto& [text, value] : cases) {
    const auto parsed = parse_integer(text);
    EXPECT_TRUE(parsed.good) << text;
    EXPECT_EQ(parsed.value, value) << text;
  }
}

TEST(ParseInteger, RejectsInvalidTextWithReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"-", ""},
      {"abc", ""},
      {"0x10", ""},
      {"0o10", ""},
      {"1_000", ""},
      {"1 000", ""},
      {" 1", ""},
      {"1e", ""},
      {"1e+", ""},
      {"--1", ""},
      {"010", "leading zeros are not allowed"},
      {"00", "leading zeros are not allowed"},
      {"1.0", "not an integer"},
      {"1.25e1", "not an integer"},
      {"1e-1", "not an integer"},
      {"1e-99999999999", "not an integer"},
      {"9223372036854775808", "out of range for 64 bits"},
      {"-9223372036854775809", "out of range for 64 bits"},
      {"1e19", "out of range for 64 bits"},
      {"1e99999999999999999999", "out of range for 64 bits"},
      {"99999999999999999999999999", "out of range for 64 bits"},
  };
  for (const auto& [text, problem] : cases) {
    const auto parsed = parse_integer(text);
    EXPECT_FALSE(parsed.good) << text;
    EXPECT_EQ(parsed.problem, problem) << text;
  }
}

TEST(ParseNumber, AcceptsOnlyFiniteDecimals) {
  EXPECT_EQ(parse_number("0.1").value, 0.1);
  EXPECT_EQ(parse_number("+.5").value, 0.5);
  EXPECT_EQ(parse_number("3").value, 3.0);
  EXPECT_EQ(parse_number("1e-4").value, 1e-4);
  EXPECT_TRUE(std::signbit(parse_number("-0").value));
  EXPECT_EQ(parse_number("5e-324").value, std::numeric_limits<double>::denorm_min());
  for (const char* text : {"",
                           ".",
                           "e5",
                           "inf",
                           "-inf",
                           ".inf",
                           "nan",
                           ".nan",
                           "0x1p3",
                           "1,5",
                           "1e400",
                           "-1e400",
                           "1e-400",
                           "1_0.5",
                           "07.5",
                           "1.5f",
                           "1e5 "}) {
    EXPECT_FALSE(parse_number(text).good) << text;
  }
}

TEST(FormatNumber, RoundTripsBitExactly) {
  std::mt19937_64 bits(1);
  int tried = 0;
  while (tried < 20000) {
    const double value = std::bit_cast<double>(bits());
    if (!std::isfinite(value)) continue;
    ++tried;
    const auto parsed = parse_number(format_number(value));
    ASSERT_TRUE(parsed.good) << format_number(value);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(parsed.value), std::bit_cast<std::uint64_t>(value));
  }
}

}  // namespace
}  // namespace longspan::decimal_test
