// What a JSON text that may come from anywhere is allowed to be, before a parser sees it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

// Looks at a text from its first byte on, as it comes in blocks, with a few bytes of memory. It
// bounds how deep values lie in one another, how long a number or a text is, and how many values
// and blanks there are for the bytes there are: so what is parsed afterwards takes time and memory
// in proportion to its bytes, and whatever goes through it level by level has stack enough. What
// is no JSON otherwise is the parser's to find.
class JsonLimits {
 public:
  static constexpr int most_depth = 32;
  static constexpr std::size_t most_number = 64;                             // characters
  static constexpr std::size_t most_text = std::size_t{64} << 20;            // bytes
  static constexpr std::size_t most_blanks_at_first = std::size_t{1} << 16;  // later half of all
  static constexpr std::size_t most_values_at_first = 4096;                  // later one in 4 bytes

  // `place` begins every message. Files of others may be indented as they like.
  explicit JsonLimits(std::string place, bool bounds_blanks = true)
      : place_(std::move(place)), bounds_blanks_(bounds_blanks) {}

  // Throws DataError at the first byte with which the text is more than that, or that no JSON has.
  void add(std::string_view block);

 private:
  void add_outside(char letter);
  void count_value();

  std::string place_;
  bool bounds_blanks_;
  std::size_t bytes_ = 0;
  std::size_t blanks_ = 0;
  std::size_t values_ = 0;
  std::size_t length_ = 0;  // of the text or number that this byte is in
  int depth_ = 0;
  bool in_text_ = false;
  bool is_escaped_ = false;
};

// The same for a text that is there as a whole.
inline void check_json_limits(std::string_view text,
                              const std::string& place,
                              bool bounds_blanks = true) {
  JsonLimits(place, bounds_blanks).add(text);
}

}  // namespace longspan
