#include "framework/core/decimal.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <system_error>

namespace longspan {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

// The components of [+-]digits[.digits][e[+-]digits].
struct Decimal {
  bool good = false;
  bool negative = false;
  bool has_point = false;
  bool has_exponent = false;
  std::string_view whole;
  std::string_view fraction;
  int exponent = 0;  // clamped beyond the range of a double
};

int read_exponent(std::string_view digits, bool negative) {
  int exponent = 0;
  for (const char c : digits) {
    if (exponent < 100000) exponent = exponent * 10 + (c - '0');
  }
  return negative ? -exponent : exponent;
}

Decimal read_decimal(std::string_view text) {
  Decimal decimal;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    decimal.negative = text[0] == '-';
    text.remove_prefix(1);
  }
  decimal.whole = take_digits(text);
  if (!text.empty() && text[0] == '.') {
    decimal.has_point = true;
    text.remove_prefix(1);
    decimal.fraction = take_digits(text);
  }
  if (decimal.whole.empty() && decimal.fraction.empty()) return decimal;
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    decimal.has_exponent = true;
    text.remove_prefix(1);
    bool negative = false;
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
      negative = text[0] == '-';
      text.remove_prefix(1);
    }
    const std::string_view digits = take_digits(text);
    if (digits.empty()) return decimal;
    decimal.exponent = read_exponent(digits, negative);
  }
  decimal.good = text.empty();
  return decimal;
}

bool has_leading_zero(const Decimal& decimal) {
  return decimal.whole.size() > 1 && decimal.whole[0] == '0';
}

constexpr const char* leading_zero = "leading zeros are not allowed";
constexpr const char* not_complete = "not an integer";
constexpr const char* too_large = "out of range for 64 bits";

template <typename T>
ParsedNumber<T> refused(std::string problem) {
  return {false, T{}, std::move(problem)};
}

}  // namespace

ParsedNumber<std::int64_t> parse_integer(std::string_view text) {
  const Decimal decimal = read_decimal(text);
  if (!decimal.good) return refused<std::int64_t>("");
  if (has_leading_zero(decimal)) return refused<std::int64_t>(leading_zero);
  if (decimal.has_point && !decimal.has_exponent) return refused<std::int64_t>(not_complete);

  // Shifts the decimal point by the exponent; the remaining fraction must be zero.
  std::string digits = std::string(decimal.whole) + std::string(decimal.fraction);
  const std::size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return {true, 0, ""};
  const auto point = static_cast<std::int64_t>(decimal.whole.size()) + decimal.exponent;
  if (point - static_cast<std::int64_t>(first) > 19) return refused<std::int64_t>(too_large);
  const std::size_t last = digits.find_last_not_of('0');
  if (static_cast<std::int64_t>(last) >= point) return refused<std::int64_t>(not_complete);
  digits.resize(static_cast<std::size_t>(point), '0');

  // Accumulates negative values, whose range is larger by one.
  std::int64_t value = 0;
  for (const char c : digits) {
    if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
        __builtin_sub_overflow(value, static_cast<std::int64_t>(c - '0'), &value)) {
      return refused<std::int64_t>(too_large);
    }
  }
  if (decimal.negative) return {true, value, ""};
  if (value == std::numeric_limits<std::int64_t>::min()) return refused<std::int64_t>(too_large);
  return {true, -value, ""};
}

ParsedNumber<double> parse_number(std::string_view text) {
  const Decimal decimal = read_decimal(text);
  if (!decimal.good) return refused<double>("");
  if (has_leading_zero(decimal)) return refused<double>(leading_zero);
  if (text[0] == '+') text.remove_prefix(1);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{}) {
    return refused<double>("out of range for float64");
  }
  return {true, value, ""};
}

std::string format_number(double value) { return fmt::format("{}", value); }

}  // namespace longspan
