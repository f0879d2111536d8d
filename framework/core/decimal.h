// Numbers as they are written in a configuration: decimal only, read strictly and printed so that
// they read back to the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

// A number, or what is wrong with its text: "" when it is no number at all.
template <typename T>
struct ParsedNumber {
  bool good = false;
  T value{};
  std::string problem;
};

// [+-]digits, or with an exponent when the value is a whole number: "1e6", "1.5e3". No leading
// zeros (elsewhere they mean octal), no underscores, no hexadecimal, nothing that does not fit.
ParsedNumber<std::int64_t> parse_integer(std::string_view text);

// The same with a decimal point: "0.5", ".5", "1e-4". Neither infinite nor NaN; a number too large
// or too small for double precision is refused, not rounded to infinity or zero.
ParsedNumber<double> parse_number(std::string_view text);

// The shortest decimal that reads back to the same bits.
std::string format_number(double value);

}  // namespace longspan
