#include "framework/core/utf8.h"

#include <gtest/gtest.h>

namespace longspan::utf8_test {
namespace {

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t code_point = 0; code_point <= max_code_point; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    append_utf8(text, code_point);
    const Utf8Character character = decode_utf8(text + "x");
    ASSERT_EQ(character.status, Utf8Status::valid) << static_cast<std::uint32_t>(code_point);
    ASSERT_EQ(character.code_point, code_point);
    ASSERT_EQ(character.width, static_cast<int>(text.size()));
    for (std::size_t length = 1; length < text.size(); ++length)
      ASSERT_EQ(decode_utf8(text.substr(0, length)).status, Utf8Status::incomplete);
  }
}

TEST(Utf8, RejectsSurrogatesOverlongFormsAndLargeValues) {
  for (const char* bytes : {"\x80",
                            "\xBF",
                            "\xC0\x80",
                            "\xC1\xBF",
                            "\xE0\x80\x80",
                            "\xE0\x9F\xBF",
                            "\xED\xA0\x80",
                            "\xED\xBF\xBF",
                            "\xF0\x80\x80\x80",
                            "\xF0\x8F\xBF\xBF",
                            "\xF4\x90\x80\x80",
                            "\xF5\x80\x80\x80",
                            "\xFE",
                            "\xFF",
                            "\xC3(",
                            "\xE2\x82(",
                            "\xF0\x9F\x98("}) {
    EXPECT_EQ(decode_utf8(bytes).status, Utf8Status::invalid) << bytes;
  }
}

TEST(Utf8, AcceptsOnlyShortestTwoByteForms) {
  int valid = 0;
  for (int first = 0x80; first < 0x100; ++first) {
    for (int second = 0; second < 0x100; ++second) {
      const char bytes[] = {static_cast<char>(first), static_cast<char>(second)};
      const Utf8Character character = decode_utf8(std::string_view(bytes, 2));
      if (character.status != Utf8Status::valid) continue;
      ++valid;
      EXPECT_GE(character.code_point, 0x80u);
      EXPECT_LT(character.code_point, 0x800u);
    }
  }
  EXPECT_EQ(valid, 0x800 - 0x80);
}

TEST(DescribeCodePoint, QuotesPrintableCharacters) {
  EXPECT_EQ(describe_code_point(0xE9), "U+00E9 '\xC3\xA9'");
  EXPECT_EQ(describe_code_point(0x1F600), "U+1F600 '\xF0\x9F\x98\x80'");
  EXPECT_EQ(describe_code_point('\n'), "U+000A");
}

}  // namespace
}  // namespace longspan::utf8_test
