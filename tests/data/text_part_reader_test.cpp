#include "framework/data/text_part_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/data/mapped_file.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/text_cuts.h"
#include "tests/data/temporary_file.h"

namespace longspan {
namespace {

std::vector<std::string> parts_of(const std::string& text, std::size_t most) {
  const TemporaryFile file(text);
  const MappedFile mapped(file.path());
  TextPartReader reader(mapped, blank_to_cut_at, most);
  std::vector<std::string> parts;
  std::int64_t at = 0;
  while (reader.next())
    for (const TextPart& part : reader.parts()) {
      EXPECT_EQ(part.begin, at);
      at += std::ssize(part.text);
      parts.emplace_back(part.text);
    }
  EXPECT_EQ(at, std::ssize(text));
  return parts;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

TEST(TextPartReader, PartsBeginWithBlanks) {
  std::string text;
  while (text.size() < 9'000'000) text += "caf\u00e9 \u4e2d\u6587, ";
  const std::vector<std::string> parts = parts_of(text, TextPartReader::as_long_as_it_is);
  EXPECT_EQ(joined(parts), text);
  EXPECT_GT(parts.size(), 30U);
  for (std::size_t i = 1; i < parts.size(); ++i) EXPECT_EQ(parts[i].front(), ' ');
}

TEST(TextPartReader, WithoutBlanksAPartIsAsLongAsItMayBe) {
  std::string text = "x";
  while (text.size() < 6'000'000) text += "\u00e9";
  EXPECT_EQ(parts_of(text, TextPartReader::as_long_as_it_is).size(), 1U);
  const std::vector<std::string> parts = parts_of(text, 1 << 20);
  EXPECT_EQ(joined(parts), text);
  EXPECT_EQ(parts.size(), 6U);
  for (const std::string& part : parts) EXPECT_EQ(valid_utf8_bytes(part), part.size());
}

TEST(TextPartReader, BytesThatAreNoCharactersAreNamed) {
  std::string text(5'000'000, 'x');
  text[4'500'000] = '\xFF';
  try {
    parts_of(text, 1 << 20);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("byte 4500000: found bytes ff"));
  }
}

}  // namespace
}  // namespace longspan
