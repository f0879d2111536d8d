#include "framework/data/examples/label_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/data/corpus/lines.h"
#include "framework/data/examples/examples.h"
#include "tests/data/example_files.h"

namespace longspan::label_examples_test {
namespace {

using testing::at;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::row;

std::string refused(std::string_view text) {
  const TemporaryFile file(text);
  return message_of<DataError>([&] {
    open_labels(file.path(), learn_labels(file.path(), Communicator()).labels, {}, Communicator());
  });
}

TEST(LabelExamples, ReadsLabelsAndBytes) {
  const TemporaryFile file("noun\ta tab\there\nverb\tgo\n");
  const LabelSet labels = learn_labels(file.path(), Communicator()).labels;
  EXPECT_THAT(labels.names(), ElementsAre("noun", "verb"));
  const auto examples = open_labels(file.path(), labels, {}, Communicator());
  ASSERT_EQ(examples->size(), 2);
  const std::vector<std::int64_t> rows = {1, -1, 0};
  const Batch batch = examples->read({.examples = rows, .columns = {0, 16}});
  EXPECT_EQ(testing::text_of(row(batch, "tokens", 0, 3)), std::string("go\0", 3));
  EXPECT_EQ(testing::text_of(row(batch, "tokens", 2, 10)), "a tab\there");
  EXPECT_EQ(at(batch, "label", 0), 1);
  EXPECT_EQ(at(batch, "label", 1), ignored_target);
  EXPECT_EQ(at(batch, "label", 2), 0);
  EXPECT_EQ(at(batch, "length", 2), 10);
  EXPECT_EQ(batch.count("rows"), 2);
  EXPECT_EQ(batch.count("tokens"), 12);
  EXPECT_EQ(batch.count("bytes"), 12);
}

TEST(LabelExamples, RejectsInvalidLines) {
  EXPECT_THAT(refused("noun\ta\nverb go\n"),
              HasSubstr(":2: expected a label, a tab and a text, found no tab"));
  EXPECT_THAT(refused("noun\ta\n\tgo\n"), HasSubstr(":2: has no label"));
  EXPECT_THAT(refused("noun\ta\nverb\t\n"), HasSubstr(":2: has no text"));
  EXPECT_THAT(refused("noun\ta\n\n"),
              HasSubstr(":2: expected a label, a tab and a text, found no tab"));
  EXPECT_THAT(refused("no\xFFun\ta\n"), HasSubstr(":1: byte 2"));
}

LearnedLabels learned(std::string_view text) {
  const TemporaryFile file(text);
  return learn_labels(file.path(), Communicator());
}

TEST(LabelExamples, CountsDistinctTextsToDetectSwappedColumns) {
  // One label for many texts, then many labels for few texts.
  std::string grows;
  for (int i = 0; i < 900; ++i) grows += fmt::format("all\ttext {}\n", i);
  for (int i = 0; i < 900; ++i) grows += fmt::format("class {}\ttext {}\n", i, i % 3);
  EXPECT_EQ(learned(grows).texts, 900);
  EXPECT_FALSE(learned(grows).may_be_swapped());
  std::string swapped;
  for (int i = 0; i < 6920; ++i) swapped += fmt::format("text {}\t{}\n", i / 2 * 2, i % 2);
  EXPECT_EQ(learned(swapped).labels.size(), 3460);
  EXPECT_EQ(learned(swapped).texts, 2);
  EXPECT_TRUE(learned(swapped).may_be_swapped());
  EXPECT_TRUE(learned("a fine film\tgood\nso dull\tbad\nlovely\tgood\n").may_be_swapped());
  // Too few lines, a text with two labels, and repeated texts.
  EXPECT_FALSE(learned("good\tfilm\nbad\tfilm\n").may_be_swapped());
  EXPECT_FALSE(learned("a\tx\nb\ty\nc\tz\na\tx\nb\tx\n").may_be_swapped());
}

TEST(LabelExamples, RejectsSwappedColumns) {
  const TemporaryFile file("so dull\tbad\n");
  EXPECT_THAT(message_of<DataError>([&] {
                open_labels(file.path(), LabelSet({"bad", "good"}), {}, Communicator());
              }),
              HasSubstr(":1: expected a class, a tab and a text, found a text, a tab and the class "
                        "\"bad\"; swap the columns"));
}

TEST(LabelExamples, RejectsUnknownLabel) {
  const TemporaryFile file("noun\ta\nadverb\tso\n");
  EXPECT_THAT(message_of<DataError>([&] {
                open_labels(file.path(), LabelSet({"noun", "verb"}), {}, Communicator());
              }),
              HasSubstr(":2: unknown label \"adverb\", expected one of the 2 of training"));
}

TEST(LabelSet, SortsNamesAndRoundTripsThroughJson) {
  const LabelSet labels({"b", "a", "\xC3\xA9", "b"});
  EXPECT_THAT(labels.names(), ElementsAre("a", "b", "\xC3\xA9"));
  EXPECT_EQ(labels.id_of("b"), 1);
  EXPECT_EQ(labels.id_of("c"), -1);
  EXPECT_EQ(labels.name(2), "\xC3\xA9");
  EXPECT_EQ(LabelSet::from_json(labels.to_json(), "here"), labels);
  EXPECT_THAT(LabelSet({"10", "9", "0"}).names(), ElementsAre("0", "9", "10"));
  EXPECT_THAT(LabelSet({"10", "9", "x"}).names(), ElementsAre("10", "9", "x"));
}

TEST(LabelSet, KeepsGivenOrder) {
  const LabelSet labels = LabelSet::in_order({"b", "a"}, "here");
  EXPECT_EQ(labels.id_of("b"), 0);
  EXPECT_EQ(LabelSet::from_json(labels.to_json(), "here"), labels);
  EXPECT_FALSE(labels == LabelSet({"b", "a"}));
}

TEST(LabelSet, RejectsInvalidJson) {
  const auto read = [](std::string_view json) {
    return message_of<DataError>([&] { LabelSet::from_json(json, "here"); });
  };
  EXPECT_THAT(read("{"), HasSubstr("here: invalid Longspan label set"));
  EXPECT_THAT(read(R"({"format":"x","version":1,"labels":[]})"),
              HasSubstr("here: expected a Longspan label set"));
  EXPECT_THAT(read(R"({"format":"longspan-labels","version":1,"labels":["b","a","b"]})"),
              HasSubstr("here: duplicate label \"b\""));
}

TEST(ForEachLineBlock, ReportsLineNumbersAndOffsetsAcrossBlocks) {
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 30; ++i) {
    expected.push_back(std::string(static_cast<std::size_t>(i) * 77777, 'x') + std::to_string(i));
    text += expected.back() + (i % 3 == 0 ? "\r\n" : i < 29 ? "\n" : "");
  }
  const TemporaryFile file(text);
  const InputFile opened(file.path());
  std::int64_t scanned = 0;
  std::size_t found = 0;
  for_each_line_block(
      opened,
      [&](const ScanProgress& progress) { scanned = progress.done; },
      [&](std::span<const Line> lines) {
        for (const Line& line : lines) {
          EXPECT_EQ(line.text, expected.at(found));
          EXPECT_EQ(line.number, static_cast<std::int64_t>(++found));
          EXPECT_EQ(text.substr(static_cast<std::size_t>(line.offset), line.text.size()),
                    line.text);
          if (line.number % 7 == 0) {
            EXPECT_EQ(line_number_at(opened, line.offset), line.number);
          }
        }
      });
  EXPECT_EQ(found, 30u);
  EXPECT_EQ(scanned, opened.size());
}

TEST(ExampleIndex, StoresOffsetsAndLengthsWithinLimits) {
  ExampleIndex index;
  index.add(0, 5, "here");
  index.add(ExampleIndex::max_offset, ExampleIndex::max_tokens, "here");
  index.finish(ExampleIndex::max_offset + 9);
  const ExampleIndex again = ExampleIndex::from_bytes(index.bytes());
  ASSERT_EQ(again.size(), 2);
  EXPECT_EQ(again.tokens(0), 5);
  EXPECT_EQ(again.end(0), ExampleIndex::max_offset);
  EXPECT_EQ(again.tokens(1), ExampleIndex::max_tokens);
  EXPECT_EQ(again.end(1), ExampleIndex::max_offset + 9);
  EXPECT_THAT(message_of<DataError>([&] { index.add(0, ExampleIndex::max_tokens + 1, "f:3"); }),
              HasSubstr("f:3: expected at most 16777215 tokens"));
  EXPECT_THAT(message_of<DataError>([&] { index.add(ExampleIndex::max_offset + 1, 1, "f:3"); }),
              HasSubstr("f:3: expected a file of at most"));
}

}  // namespace
}  // namespace longspan::label_examples_test
