#include "framework/data/examples/parallel_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/data/tokenization/special_tokens.h"
#include "tests/data/example_files.h"
#include "tests/data/framing_tokenizer.h"
#include "tests/data/subword_text.h"

namespace longspan::parallel_examples_test {
namespace {

using testing::as_bart;
using testing::at;
using ::testing::ElementsAre;
using testing::framing_tokenizer;
using ::testing::HasSubstr;
using testing::pairs_of;
using testing::row;

std::string refused(const std::string& source,
                    const std::string& target,
                    const Tokenizer& tokenizer = {}) {
  return message_of<DataError>([&] { pairs_of(source, target, tokenizer); });
}

TEST(ParallelExamples, ReadsByteFields) {
  const auto pairs = pairs_of("ab\nc", "x\r\nyz\n");  // LF, CRLF or no line ending
  ASSERT_EQ(pairs->size(), 2);
  EXPECT_EQ(pairs->lengths(0), (Lengths{2, 1}));
  EXPECT_EQ(pairs->lengths(1), (Lengths{1, 2}));
  const std::vector<std::int64_t> rows = {1, -1, 0};
  const Batch batch = pairs->read({.examples = rows, .columns = {3, 4}});
  EXPECT_THAT(row(batch, "source", 0, 3), ElementsAre('c', 0, 0));
  EXPECT_THAT(row(batch, "tokens", 0, 4), ElementsAre(256, 'y', 'z', 0));
  EXPECT_THAT(row(batch, "targets", 0, 4), ElementsAre('y', 'z', 257, -1));
  EXPECT_THAT(row(batch, "source", 1, 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(row(batch, "tokens", 1, 4), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(row(batch, "targets", 1, 4), ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT(row(batch, "targets", 2, 4), ElementsAre('x', 257, -1, -1));
  EXPECT_EQ(at(batch, "source_length", 0), 1);
  EXPECT_EQ(at(batch, "length", 0), 3);
  EXPECT_EQ(at(batch, "source_length", 1), 0);
  EXPECT_EQ(at(batch, "length", 1), 0);
  EXPECT_EQ(batch.count("tokens"), 5);
  EXPECT_EQ(batch.count("source_tokens"), 3);
  EXPECT_EQ(batch.count("rows"), 2);
  EXPECT_EQ(batch.count("bytes"), 5);  // each line ending counts as one byte
}

TEST(ParallelExamples, CountsBytesOfTruncatedText) {
  const std::vector<std::int64_t> rows = {0};
  const BatchRequest whole = {.examples = rows, .columns = {16, 16}};
  for (const char* target : {"four\n", "four\r\n", "four"})
    EXPECT_EQ(pairs_of("a\n", target)->read(whole).count("bytes"), 5) << target;
  const BatchRequest cut = {.examples = rows, .columns = {16, 16}, .longest = 3};
  const Batch bytes = pairs_of("a\n", "abcdefgh\r\n")->read(cut);
  EXPECT_EQ(bytes.count("tokens"), 4);
  EXPECT_EQ(bytes.count("bytes"), 4);
  // Subwords: the bytes of the remaining tokens.
  const auto tokenizer = Tokenizer::subwords(subword_model());
  const auto pairs = pairs_of("ka\n", "balo zzz ka\n", tokenizer);
  const std::int64_t all = pairs->lengths(0).target;
  std::int64_t before = 1;
  for (std::int64_t longest = 1; longest <= all; ++longest) {
    const Batch some = pairs->read({.examples = rows, .columns = {16, 16}, .longest = longest});
    const auto kept = row(some, "tokens", 0, longest + 1);
    const std::string text =
        tokenizer.decode(std::vector<std::int64_t>(kept.begin() + 1, kept.end()));
    EXPECT_EQ(some.count("bytes"), std::ssize(text) + 1) << longest;
    EXPECT_GT(some.count("bytes"), before);
    before = some.count("bytes");
  }
  EXPECT_EQ(before, 12);
}

TEST(ParallelExamples, TruncatesLinesOfTokenIds) {
  const auto pairs = pairs_of("15 3\n", " 15  3 7\t9\n", Tokenizer::ids(20));
  const std::vector<std::int64_t> rows = {0};
  std::vector<std::int64_t> bytes;
  for (const std::int64_t longest : {1, 2, 3, 4}) {
    const Batch cut = pairs->read({.examples = rows, .columns = {16, 16}, .longest = longest});
    EXPECT_EQ(at(cut, "length", 0), longest + 1);
    bytes.push_back(cut.count("bytes"));
  }
  EXPECT_THAT(bytes, ElementsAre(3 + 1, 6 + 1, 8 + 1, 10 + 1));
}

TEST(ParallelExamples, AddsSpecialTokensOfTokenizer) {
  const TemporaryFile source("a b c\nb\n"), target("c\na b\n"), links("2-0 0-0\n0-1\n");
  const Tokenizer tokenizer = framing_tokenizer();
  const auto pairs = open_parallel_corpus(source.path(),
                                          target.path(),
                                          tokenizer,
                                          tokenizer,
                                          Communicator(),
                                          {},
                                          links.path(),
                                          as_bart);
  EXPECT_EQ(pairs->lengths(0), (Lengths{5, 2}));
  EXPECT_EQ(pairs->lengths(1), (Lengths{3, 3}));
  const std::vector<std::int64_t> rows = {0, 1};
  const Batch batch = pairs->read({.examples = rows, .columns = {5, 4}});
  EXPECT_THAT(row(batch, "source", 0, 5), ElementsAre(0, 4, 5, 6, 2));
  EXPECT_THAT(row(batch, "tokens", 0, 4), ElementsAre(2, 0, 6, 0));
  EXPECT_THAT(row(batch, "targets", 0, 4), ElementsAre(0, 6, 2, -1));
  EXPECT_THAT(row(batch, "tokens", 1, 4), ElementsAre(2, 0, 4, 5));
  EXPECT_THAT(row(batch, "targets", 1, 4), ElementsAre(0, 4, 5, 2));
  EXPECT_EQ(at(batch, "length", 0), 3);
  EXPECT_EQ(batch.count("tokens"), 7);
  // Links are shifted by the leading special token.
  const auto all = batch.field("links").span<std::int64_t>();
  EXPECT_THAT(std::vector<std::int64_t>(all.begin(), all.end()),
              ElementsAre(3, 1, 1, 1, 1, 2, -1, -1));
  // Truncation preserves the special tokens.
  const Batch cut = pairs->read({.examples = rows, .columns = {3, 3}, .longest = 3});
  EXPECT_THAT(row(cut, "source", 0, 3), ElementsAre(0, 4, 2));
  EXPECT_THAT(row(cut, "targets", 1, 3), ElementsAre(0, 4, 2));
  EXPECT_EQ(cut.field("links").shape(), (Shape{2, 1, 2}));
}

TEST(ParallelExamples, RejectsDifferentLineCounts) {
  EXPECT_THAT(refused("a\nb\nc\n", "x\ny\n"), HasSubstr(":3: has 3 lines, but /"));
  EXPECT_THAT(refused("a\n", "x\ny\n"), HasSubstr(":2: has 2 lines, but /"));
  EXPECT_THAT(refused("a\n", "x\ny\n"), HasSubstr("has 1: line 2 has no counterpart"));
}

TEST(ParallelExamples, RejectsEmptyLines) {
  EXPECT_THAT(refused("a\n\nc\n", "x\ny\nz\n"), HasSubstr(":2: expected text in every line"));
  EXPECT_THAT(refused("a\nb\nc\n", "x\ny\n\n"), HasSubstr(":3: expected text in every line"));
}

TEST(ParallelExamples, RejectsTextThatTokenizerCannotEncode) {
  const std::string bad = "a\nb\xFF\n";
  EXPECT_EQ(refused(bad, bad), "");  // the byte tokenizer accepts any byte
  const auto characters = Tokenizer::characters(std::u32string(U"ab"), true);
  EXPECT_THAT(refused(bad, bad, characters), HasSubstr(":2: byte 1"));
  EXPECT_THAT(refused("a\n", bad, Tokenizer::subwords(subword_model())), HasSubstr("byte"));
  EXPECT_THAT(refused("a\nac\n", "a\nb\n", Tokenizer::characters(std::u32string(U"ab"), false)),
              HasSubstr(":2: byte 1: character U+0063 'c' is not in the vocabulary"));
}

TEST(ParallelExamples, ReportsFileTruncatedAfterOpening) {
  const TemporaryFile source("ab\nabc\n");
  const TemporaryFile target("x\ny\n");
  const auto pairs = open_parallel_corpus(source.path(), target.path(), {}, {}, Communicator());
  source.resize(3);
  const std::vector<std::int64_t> rows = {1};
  EXPECT_NE(message_of<DataError>([&] { pairs->read({.examples = rows, .columns = {8, 8}}); }), "");
}

TEST(SpecialTokenIds, FollowVocabularyUnlessModelDefinesThem) {
  const SpecialTokenIds bytes = sentence_ids({});
  EXPECT_EQ(bytes.begin, 256);
  EXPECT_EQ(bytes.end, 257);
  EXPECT_EQ(bytes.vocabulary, 258);
  const SpecialTokenIds characters =
      sentence_ids(Tokenizer::characters(std::u32string(U"ab"), true));
  EXPECT_EQ(characters.begin, 3);
  EXPECT_EQ(characters.end, 4);
  EXPECT_EQ(characters.vocabulary, 5);
  const auto model = subword_model();
  const SpecialTokenIds subwords = sentence_ids(Tokenizer::subwords(model));
  EXPECT_EQ(subwords.begin, model.id_of("<s>"));
  EXPECT_EQ(subwords.end, model.id_of("</s>"));
  EXPECT_EQ(subwords.vocabulary, model.vocabulary());
}

TEST(SpecialTokenIds, ResolvesNamedTokens) {
  const Tokenizer bart = framing_tokenizer();
  const SpecialTokenIds named = sentence_ids(bart, as_bart);
  EXPECT_EQ(named.begin, 2);
  EXPECT_EQ(named.end, 2);
  EXPECT_EQ(named.first, 0);
  EXPECT_EQ(named.vocabulary, 7);
  // Default: a new begin token, and the end token of the template or a new one.
  const SpecialTokenIds framed = sentence_ids(bart);
  EXPECT_EQ(framed.begin, 7);
  EXPECT_EQ(framed.end, 2);
  EXPECT_EQ(framed.vocabulary, 8);
  const SpecialTokenIds bare = sentence_ids(framing_tokenizer("null"));
  EXPECT_EQ(bare.begin, 7);
  EXPECT_EQ(bare.end, 8);
  EXPECT_EQ(bare.vocabulary, 9);
  EXPECT_EQ(message_of<ConfigurationError>([&] { sentence_ids(bart, {.end = "<end>"}); }),
            "data.tokenizer.eos_token: the tokenizer has no token \"<end>\"");
  EXPECT_EQ(max_sentence_ids(TokenizerKind::bytes, as_bart), 2);
  EXPECT_EQ(max_sentence_ids(TokenizerKind::tokenizer_json, as_bart), 0);
}

TEST(SpecialTokenIds, DecodingOmitsSpecialTokens) {
  const std::vector<std::int64_t> ids = {0, 4, 1, 5, 2, 6};
  EXPECT_EQ(decode_sentence(framing_tokenizer(), ids, as_bart), "a b");
}

TEST(SpecialTokenIds, DecodingStopsAtEndToken) {
  const std::vector<std::int64_t> ids = {256, 'h', 'i', 257, 'x'};
  EXPECT_EQ(decode_sentence({}, ids), "hi");
  EXPECT_THAT(message_of<DataError>([] { decode_sentence({}, std::vector<std::int64_t>{300}); }),
              HasSubstr("token 300"));
}

}  // namespace
}  // namespace longspan::parallel_examples_test
