#include "framework/core/utf8.h"

#include <fmt/format.h>

namespace longspan {

namespace {

struct Lead {
  int width = 0;  // 0: not a valid first byte
  // The range of the second byte, which excludes overlong forms, surrogates and values above
  // U+10FFFF.
  unsigned char second_lowest = 0x80;
  unsigned char second_highest = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Character decode_utf8(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80) return {Utf8Status::valid, first, 1};
  const Lead lead = lead_of(first);
  if (lead.width == 0) return {Utf8Status::invalid, 0, 1};
  char32_t code_point = first & (0xFFu >> (lead.width + 1));
  for (int i = 1; i < lead.width; ++i) {
    if (static_cast<std::size_t>(i) == bytes.size()) return {Utf8Status::incomplete, 0, i};
    const auto byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
    const unsigned char lowest = i == 1 ? lead.second_lowest : 0x80;
    const unsigned char highest = i == 1 ? lead.second_highest : 0xBF;
    if (byte < lowest || byte > highest) return {Utf8Status::invalid, 0, i + 1};
    code_point = (code_point << 6) | (byte & 0x3Fu);
  }
  return {Utf8Status::valid, code_point, lead.width};
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&text](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto value = static_cast<std::uint32_t>(code_point);
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | (value >> 6));
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3F));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

std::string describe_code_point(char32_t code_point) {
  const auto value = static_cast<std::uint32_t>(code_point);
  std::string text = fmt::format("U+{:04X}", value);
  const bool control = value < 0x20 || (value >= 0x7F && value < 0xA0);
  if (control) return text;
  text += " '";
  append_utf8(text, code_point);
  return text + "'";
}

}  // namespace longspan
