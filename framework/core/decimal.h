// Numbers of a configuration: decimal only, parsed strictly, printed so that they read back to the
// same bits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

// A parsed number, or a description of the problem: "" when the text is not a number at all.
template <typename T>
struct ParsedNumber {
  bool good = false;
  T value{};
  std::string problem;
};

// Parses [+-]digits, or an exponent form with an integer value: "1e6", "1.5e3". Rejects leading
// zeros (octal elsewhere), underscores, hexadecimal and overflow.
ParsedNumber<std::int64_t> parse_integer(std::string_view text);

// Parses a decimal number: "0.5", ".5", "1e-4". Rejects infinity, NaN, and numbers that overflow or
// underflow double precision.
ParsedNumber<double> parse_number(std::string_view text);

// Returns the shortest decimal that reads back to the same bits.
std::string format_number(double value);

}  // namespace longspan
