#include "framework/core/json_bounds.h"

#include "framework/core/error.h"

namespace longspan {
namespace {

bool is_blank(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\r' || letter == '\t';
}

}  // namespace

void JsonLimits::count_value() {
  length_ = 0;
  if (++values_ > max_values_at_first + bytes_ / 4)
    throw DataError(
        "{}: not a Longspan file: {} values in the first {} bytes", place_, values_, bytes_);
}

void JsonLimits::add_outside(char letter) {
  if (is_blank(letter)) {
    length_ = 0;
    if (++blanks_ > max_blanks_at_first + bytes_ / 2 && bounds_blanks_)
      throw DataError("{}: not a Longspan file: {} of the first {} bytes are whitespace",
                      place_,
                      blanks_,
                      bytes_);
    return;
  }
  switch (letter) {
    case '"':
      in_text_ = true;
      length_ = 0;
      return;
    case '{':
    case '[':
      if (++depth_ > max_depth)
        throw DataError("{}: not a Longspan file: values nested more than {} deep at byte {}",
                        place_,
                        max_depth,
                        bytes_);
      return count_value();
    case ',':
      return count_value();
    case '}':
    case ']':
      --depth_;
      [[fallthrough]];
    case ':':
      length_ = 0;
      return;
    default:
      if (++length_ > max_number)
        throw DataError("{}: a number or literal exceeds {} characters after byte {}",
                        place_,
                        max_number,
                        bytes_);
  }
}

void JsonLimits::add(std::string_view block) {
  for (const char letter : block) {
    ++bytes_;
    // Invalid in JSON both inside and outside strings; a hole in a sparse file reads as zeros.
    if (static_cast<unsigned char>(letter) < 0x20 && (in_text_ || !is_blank(letter)))
      throw DataError("{}: invalid JSON: byte {} is {:#04x}",
                      place_,
                      bytes_,
                      static_cast<unsigned char>(letter));
    if (!in_text_) {
      add_outside(letter);
      continue;
    }
    if (++length_ > max_text)
      throw DataError("{}: a string exceeds {} MiB after byte {}", place_, max_text >> 20, bytes_);
    if (is_escaped_) {
      is_escaped_ = false;
    } else if (letter == '\\') {
      is_escaped_ = true;
    } else if (letter == '"') {
      in_text_ = false;
      length_ = 0;
    }
  }
}

}  // namespace longspan
