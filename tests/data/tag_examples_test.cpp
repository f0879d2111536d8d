#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/data/examples/tagged_words.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "tests/data/example_files.h"
#include "tests/data/subword_text.h"

namespace longspan::tag_examples_test {
namespace {

using testing::at;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::row;

constexpr std::string_view two_columns = "Hi\tX\nyou\tP\n\n\nGo\tV\n";
constexpr std::string_view conllu =
    "# text = don't go\n"
    "1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_\n"
    "2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_\n"
    "2.1\tthere\tthere\tADV\tRB\t_\t_\t_\t_\t_\n"
    "3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n"
    "\n"
    "# only a comment\n"
    "\n"
    "1\tStop\tstop\tVERB\tVB\t_\t0\troot\t_\t_\n";

std::shared_ptr<const Examples> open(std::string_view text,
                                     TagColumns columns,
                                     const Tokenizer& tokenizer = {}) {
  const TemporaryFile file(text);
  const Communicator all;
  return open_tags(
      file.path(), columns, learn_tags(file.path(), columns, all).labels, tokenizer, all);
}

std::string refused(std::string_view text, TagColumns columns) {
  return message_of<DataError>([&] { open(text, columns); });
}

TEST(TagExamples, ReadsTwoColumnsAsBytes) {
  const auto examples = open(two_columns, TagColumns::two);  // tags P, V, X
  ASSERT_EQ(examples->size(), 2);
  EXPECT_EQ(examples->lengths(0), (Lengths{0, 6}));
  EXPECT_THAT(examples->place(1), HasSubstr(":5"));
  const std::vector<std::int64_t> rows = {0, 1, -1};
  const Batch batch = examples->read({.examples = rows, .columns = {0, 8}});
  EXPECT_THAT(row(batch, "tokens", 0, 8), ElementsAre('H', 'i', ' ', 'y', 'o', 'u', 0, 0));
  EXPECT_THAT(row(batch, "targets", 0, 8), ElementsAre(2, -1, -1, 0, -1, -1, -1, -1));
  EXPECT_THAT(row(batch, "targets", 1, 8), ElementsAre(1, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(row(batch, "targets", 2, 2), ElementsAre(-1, -1));
  EXPECT_EQ(at(batch, "length", 0), 6);
  EXPECT_EQ(at(batch, "length", 2), 0);
  EXPECT_EQ(batch.count("tokens"), 3);
  EXPECT_EQ(batch.count("bytes"), 7);
  EXPECT_EQ(batch.count("rows"), 2);
}

TEST(TagExamples, ReportsTagsRemovedByTruncation) {
  const auto examples = open(two_columns, TagColumns::two);
  const std::vector<std::int64_t> rows = {0};
  const Batch batch =
      examples->read({.examples = rows, .columns = {0, 8}, .longest = 3, .with_left_out = true});
  EXPECT_THAT(row(batch, "tokens", 0, 4), ElementsAre('H', 'i', ' ', 0));
  EXPECT_THAT(row(batch, "targets", 0, 4), ElementsAre(2, -1, -1, -1));
  EXPECT_EQ(batch.count("tokens"), 1);
  EXPECT_EQ(batch.count("left_out"), 1);
  EXPECT_THAT(row(batch, "left_out", 0, 1), ElementsAre(0));
  EXPECT_EQ(at(batch, "length", 0), 3);
}

// The fields of training batches must not depend on truncation.
TEST(TagExamples, TrainingBatchesHaveNoFieldForRemovedTags) {
  const auto examples = open(two_columns, TagColumns::two);
  const std::vector<std::int64_t> rows = {0};
  const Batch batch = examples->read({.examples = rows, .columns = {0, 8}, .longest = 3});
  EXPECT_EQ(batch.count("left_out"), 1);
  EXPECT_FALSE(batch.fields.contains("left_out"));
}

TEST(TagExamples, AcceptsMoreTagsThanWords) {
  const std::string dna = "A\t1\nC\t2\nG\t3\nT\t4\nA\t5\nC\t6\n";
  EXPECT_EQ(refused(dna, TagColumns::two), "");
  const TemporaryFile file(dna);
  const LearnedLabels learned = learn_tags(file.path(), TagColumns::two, Communicator());
  EXPECT_EQ(learned.texts, 4);
  EXPECT_TRUE(learned.may_be_swapped());
  const TemporaryFile other(conllu);
  EXPECT_FALSE(learn_tags(other.path(), TagColumns::upos, Communicator()).texts);
}

TEST(TagExamples, SkipsConlluLinesWithoutWord) {
  const auto examples = open(conllu, TagColumns::upos);
  ASSERT_EQ(examples->size(), 2);
  const std::vector<std::int64_t> rows = {0, 1};
  const Batch batch = examples->read({.examples = rows, .columns = {0, 16}});
  EXPECT_EQ(testing::text_of(row(batch, "tokens", 0, at(batch, "length", 0))), "do n't go");
  EXPECT_EQ(testing::text_of(row(batch, "tokens", 1, at(batch, "length", 1))), "Stop");
  // AUX, PART, VERB
  EXPECT_THAT(row(batch, "targets", 0, 8), ElementsAre(0, -1, -1, 1, -1, -1, -1, 2));
  const TemporaryFile file(conllu);
  EXPECT_THAT(learn_tags(file.path(), TagColumns::xpos, Communicator()).labels.names(),
              ElementsAre("RB", "VB", "VBP"));
}

TEST(TagExamples, TagsFirstSubwordOfEachWord) {
  const auto tokenizer = Tokenizer::subwords(subword_model());
  const auto examples = open("balo\tA\nzzz\tB\nka\tA\n", TagColumns::two, tokenizer);
  const std::vector<std::int64_t> rows = {0};
  const std::int64_t length = examples->lengths(0).target;
  const Batch batch = examples->read({.examples = rows, .columns = {0, length}});
  const auto tokens = row(batch, "tokens", 0, length);
  EXPECT_EQ(tokenizer.decode(tokens), "balo zzz ka");
  std::vector<std::int64_t> tags;
  for (const std::int64_t tag : row(batch, "targets", 0, length))
    if (tag != ignored_target) tags.push_back(tag);
  EXPECT_THAT(tags, ElementsAre(0, 1, 0));
  EXPECT_GT(length, 3);
}

TEST(TagExamples, JoinsWordsIfVocabularyLacksSpace) {
  const auto tokenizer = Tokenizer::characters(std::u32string(U"HGVioyu"), false);
  const auto examples = open(two_columns, TagColumns::two, tokenizer);
  EXPECT_EQ(examples->lengths(0).target, 5);
}

TEST(TagExamples, RejectsLinesWithInvalidColumns) {
  EXPECT_THAT(refused("Hi\tX\nyou\n", TagColumns::two), HasSubstr("found 0 tabs"));
  EXPECT_THAT(refused("Hi\tX\nyou\tA\tB\n", TagColumns::two), HasSubstr("found 2 tabs"));
  EXPECT_THAT(refused(conllu, TagColumns::two),
              HasSubstr("set data.tag_format to conllu_upos or conllu_xpos"));
  EXPECT_THAT(refused("1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_\n", TagColumns::two),
              HasSubstr("set data.tag_format to conllu_upos or conllu_xpos"));
  EXPECT_THAT(refused("Hi\tX\n", TagColumns::upos), HasSubstr("set data.tag_format to tsv"));
  EXPECT_THAT(refused("\tX\n", TagColumns::two), HasSubstr(":1: has no word"));
  EXPECT_THAT(refused("Hi\t\n", TagColumns::two), HasSubstr(":1: has no tag"));
  EXPECT_THAT(refused("# c\n1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\n", TagColumns::upos),
              HasSubstr(":2: expected 10 tab-separated columns of CoNLL-U, found 9"));
  EXPECT_THAT(refused("1\tdo\tdo\t_\tVBP\t_\t3\taux\t_\t_\n", TagColumns::upos),
              HasSubstr(":1: expected a tag in column 4"));
  EXPECT_THAT(refused("# nothing\n\n", TagColumns::upos), HasSubstr("has no word with a tag"));
}

// WNUT17 has such lines. U+3000 is the ideographic space.
TEST(TagExamples, WhitespaceLinesSeparateExamples) {
  for (const char* const line : {"", " ", "\t", "\t\t \t", "\r", " \r", "\u00A0", "\u3000\t"}) {
    const std::string text = fmt::format("Hi\tX\nyou\tP\n{0}\n{0}\nGo\tV\n{0}\n", line);
    const auto examples = open(text, TagColumns::two);
    ASSERT_EQ(examples->size(), 2) << text;
    EXPECT_EQ(examples->lengths(0), (Lengths{0, 6}));
    const std::vector<std::int64_t> rows = {0, 1};
    const Batch batch = examples->read({.examples = rows, .columns = {0, 8}});
    EXPECT_EQ(batch.count("tokens"), 3);
    EXPECT_THAT(row(batch, "tokens", 1, 3), ElementsAre('G', 'o', 0));
  }
  std::string spaced(conllu);
  spaced.insert(spaced.find("\n\n") + 1, " \t");
  EXPECT_EQ(open(spaced, TagColumns::upos)->size(), 2);
}

TEST(TagExamples, RejectsUnknownTag) {
  const TemporaryFile file("Hi\tX\n\nyou\tPRONN\n");
  EXPECT_THAT(
      message_of<DataError>([&] {
        open_tags(file.path(), TagColumns::two, LabelSet({"X", "PRON"}), {}, Communicator());
      }),
      HasSubstr(":3: unknown tag \"PRONN\", expected one of the 2 of training; did you mean "
                "\"PRON\"?"));
}

}  // namespace
}  // namespace longspan::tag_examples_test
