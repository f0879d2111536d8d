// Limits of untrusted JSON text, checked before parsing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

// Checks a text in blocks from its first byte, with a few bytes of state. Bounds the nesting depth,
// the length of numbers and strings, and the values and blanks per byte. So parsing takes time and
// memory linear in the bytes, and recursion has enough stack. Other syntax errors are left to the
// parser.
class JsonLimits {
 public:
  static constexpr int max_depth = 32;
  static constexpr std::size_t max_number = 64;                   // characters
  static constexpr std::size_t max_text = std::size_t{64} << 20;  // bytes
  // then half of all bytes
  static constexpr std::size_t max_blanks_at_first = std::size_t{1} << 16;
  static constexpr std::size_t max_values_at_first = 4096;  // then one in 4 bytes

  // `place` begins every message. Without `bounds_blanks` the file may be indented freely.
  explicit JsonLimits(std::string place, bool bounds_blanks = true)
      : place_(std::move(place)), bounds_blanks_(bounds_blanks) {}

  // Throws DataError at the first byte that exceeds a limit or is invalid in any JSON.
  void add(std::string_view block);

 private:
  void add_outside(char letter);
  void count_value();

  std::string place_;
  bool bounds_blanks_;
  std::size_t bytes_ = 0;
  std::size_t blanks_ = 0;
  std::size_t values_ = 0;
  std::size_t length_ = 0;  // of the current string or number
  int depth_ = 0;
  bool in_text_ = false;
  bool is_escaped_ = false;
};

// Checks a complete text.
inline void check_json_limits(std::string_view text,
                              const std::string& place,
                              bool bounds_blanks = true) {
  JsonLimits(place, bounds_blanks).add(text);
}

}  // namespace longspan
