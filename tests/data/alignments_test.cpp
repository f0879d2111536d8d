
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/data/examples/parallel_examples.h"
#include "tests/data/example_files.h"

namespace longspan::alignments_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseAlignment, ReturnsLinks) {
  EXPECT_THAT(parse_alignment("0-0 12-3\t 2-1", {13, 4}, "f:1"),
              ElementsAre(AlignmentLink{0, 0}, AlignmentLink{12, 3}, AlignmentLink{2, 1}));
  EXPECT_TRUE(parse_alignment("", {1, 1}, "f:1").empty());
}

TEST(ParseAlignment, RejectsInvalidOrOutOfRangeLinks) {
  for (const char* bad : {"1", "1-", "-1-2", "1-2-3", "a-1", "1--2", "1-2x"})
    EXPECT_THAT(message_of<DataError>([&] {
                  parse_alignment(bad, {9, 9}, "f:7");
                }),
                HasSubstr(fmt::format("counted from 0), found \"{}\"", bad)));
  for (const char* beyond : {"2-0", "0-1"})
    EXPECT_EQ(
        message_of<DataError>([&] {
          parse_alignment(beyond, {2, 1}, "f:7");
        }),
        fmt::format("f:7: link {} is out of range: the pair has 2 source and 1 target tokens, "
                    "counted from 0",
                    beyond));
  for (const std::string& word : {std::string(100'000, 'x'), std::string(100'000, '0') + "-9"})
    EXPECT_LT(message_of<DataError>([&] { parse_alignment(word, {2, 1}, "f:7"); }).size(), 300U);
}

TEST(AlignmentFile, ParallelCorpusProvidesLinksField) {
  const TemporaryFile source("abc\nd\nef\n"), target("xy\nz\nuvw\n"), links("0-1 2-1 2-0\n\n1-2");
  const auto open = [&](const TemporaryFile& of) {
    return open_parallel_corpus(
        source.path(), target.path(), {}, {}, Communicator(), {}, of.path());
  };
  const auto pairs = open(links);
  const std::vector<std::int64_t> rows = {1, 0, -1, 2};
  const Batch batch = pairs->read({.examples = rows, .columns = {3, 4}});
  EXPECT_EQ(batch.field("links").shape(), (Shape{4, 3, 2}));
  const auto found = batch.field("links").span<std::int64_t>();
  EXPECT_THAT(std::vector(found.begin(), found.end()),
              ElementsAre(-1,
                          -1,
                          -1,
                          -1,
                          -1,
                          -1,  // the second line
                          0,
                          1,
                          2,
                          1,
                          2,
                          0,  // the first
                          -1,
                          -1,
                          -1,
                          -1,
                          -1,
                          -1,  // an empty row
                          1,
                          2,
                          -1,
                          -1,
                          -1,
                          -1));
  EXPECT_EQ(batch.count("linked"), 3);
  EXPECT_EQ(batch.count("cells"), 1 * 2 + 3 * 3 + 2 * 4);
  // Truncation drops the links of removed tokens.
  const Batch cut = pairs->read({.examples = rows, .columns = {3, 4}, .longest = 2});
  const auto left = cut.field("links").span<std::int64_t>();
  EXPECT_EQ(cut.field("links").shape(), (Shape{4, 1, 2}));
  EXPECT_THAT(std::vector(left.begin(), left.end()), ElementsAre(-1, -1, 0, 1, -1, -1, -1, -1));
  EXPECT_EQ(cut.count("linked"), 1);

  const TemporaryFile few("0-0\n"), many("0-0\n0-0\n0-0\n0-0\n"), wrong("0-0\n0-1\n0-0\n");
  EXPECT_THAT(message_of<DataError>([&] { open(few); }), HasSubstr("expected 3 lines of links"));
  EXPECT_THAT(message_of<DataError>([&] { open(many); }),
              HasSubstr(":4: expected at most 3 lines"));
  EXPECT_THAT(message_of<DataError>([&] { open(wrong); }),
              HasSubstr(":2: link 0-1 is out of range"));
}

}  // namespace
}  // namespace longspan::alignments_test
