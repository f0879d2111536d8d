#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/data/corpus/lines.h"
#include "tests/data/subword_text.h"

namespace longspan::line_chunks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Formats chunks between bars, with "$" at the end of a line.
std::string shown(std::string_view text,
                  bool last,
                  std::size_t longest,
                  std::size_t* used = nullptr) {
  std::size_t bytes = 0;
  std::string result = "|";
  for (const LineChunk& piece : split_lines(text, last, bytes, longest))
    result += std::string(piece.text) + (piece.ends_line ? "$|" : "|");
  if (used != nullptr) *used = bytes;
  return result;
}

TEST(SplitLines, ReturnsLinesAndUnterminatedRest) {
  EXPECT_EQ(shown("ab\n\nc", true, 8), "|ab$|$|c|");
  EXPECT_EQ(shown("ab\n", true, 8), "|ab$|");
  std::size_t used = 0;
  EXPECT_EQ(shown("ab\n\nc", false, 8, &used), "|ab$|$|");
  EXPECT_EQ(used, 4);
}

TEST(SplitLines, SplitsLongLinesAtSpacesOrCharacters) {
  EXPECT_EQ(shown("one two three\n", true, 8), "|one two| three$|");
  EXPECT_EQ(shown("abcdefgh\nx", true, 8), "|abcdefgh$|x|");
  EXPECT_EQ(shown("abcdefghi", true, 8), "|abcdefgh|i|");
  EXPECT_EQ(shown("abcdefg\xC3\xA9z", true, 8), "|abcdefg|\xC3\xA9z|");
  EXPECT_EQ(shown("          ", true, 4), "|    |    |  |");
}

TEST(LineReader, MatchesSplitLinesOnLongFiles) {
  std::string text = subword_text(150'000);  // several reads
  text.insert(5'000'000 / 2, std::string(200'000, 'x'));
  const TemporaryFile file(text);
  const InputFile opened(file.path());
  LineReader reader(opened, 0, opened.size());
  std::string all;
  std::size_t count = 0;
  int readings = 0;
  for (; reader.next(); ++readings)
    for (const LineChunk& piece : reader.pieces()) {
      all += std::string(piece.text) + (piece.ends_line ? "\n" : "");
      ++count;
    }
  EXPECT_EQ(all, text);
  EXPECT_GT(readings, 1);
  std::size_t used = 0;
  EXPECT_EQ(count, split_lines(text, true, used).size());
  EXPECT_EQ(used, text.size());
}

TEST(LineReader, OmitsLineCutByRangeEnd) {
  const TemporaryFile file("one\ntwo\nthree\n");
  const InputFile opened(file.path());
  LineReader reader(opened, 4, 10);
  ASSERT_TRUE(reader.next());
  ASSERT_EQ(reader.pieces().size(), 1);
  EXPECT_EQ(reader.pieces()[0].text, "two");
  EXPECT_FALSE(reader.next());
}

TEST(LineReader, RejectsInvalidUtf8WithByte) {
  const TemporaryFile file("one\ntwo\xFF\n");
  const InputFile opened(file.path());
  LineReader reader(opened, 0, opened.size());
  EXPECT_THAT(message_of<DataError>([&] { reader.next(); }),
              HasSubstr("byte 7: expected UTF-8, found bytes ff"));
}

}  // namespace
}  // namespace longspan::line_chunks_test
