#include "framework/data/corpus/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <random>

#include "framework/core/error.h"
#include "tests/data/temporary_file.h"

namespace longspan::corpus_test {
namespace {

using ::testing::HasSubstr;

// Returns random text with characters of 1 to 4 bytes.
std::string mixed_text(int characters) {
  const std::vector<std::string> alphabet = {
      "a", "\n", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  std::mt19937 generator(1);
  std::string text;
  for (int i = 0; i < characters; ++i) text += alphabet[generator() % alphabet.size()];
  return text;
}

TEST(Corpus, ReadsEqualTokensFromAnyPosition) {
  const TemporaryFile file(mixed_text(200'000));
  for (const bool bytes : {true, false}) {
    const auto opened = std::make_shared<const InputFile>(file.path());
    const Tokenizer tokenizer = bytes ? Tokenizer() : Tokenizer::characters_of(*opened, false);
    const Corpus corpus(opened, tokenizer);
    std::vector<char> all(static_cast<std::size_t>(opened->size()));
    opened->copy(0, all);
    const auto expected = tokenizer.encode(std::string_view(all.data(), all.size()), "text");
    ASSERT_EQ(corpus.tokens(), static_cast<std::int64_t>(expected.size()));
    if (!bytes) {
      ASSERT_EQ(corpus.tokens(), 200'000);
    }

    CorpusPosition at;
    std::vector<std::int64_t> tokens;
    std::mt19937 generator(2);
    while (at.token < corpus.tokens()) {
      std::vector<std::int64_t> piece(static_cast<std::size_t>(
          std::min<std::int64_t>(1 + generator() % 30'000, corpus.tokens() - at.token)));
      at = corpus.read(at, piece);
      tokens.insert(tokens.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(tokens, expected);
    EXPECT_EQ(at.byte, corpus.bytes());
    EXPECT_EQ(corpus.seek(corpus.tokens()), at);

    for (const std::int64_t begin : {std::int64_t{0},
                                     std::int64_t{65'535},
                                     std::int64_t{65'536},
                                     std::int64_t{131'073},
                                     corpus.tokens() - 1}) {
      std::vector<std::int64_t> one(1);
      const CorpusPosition place = corpus.seek(begin);
      EXPECT_EQ(place.token, begin);
      corpus.read(place, one);
      EXPECT_EQ(one[0], expected[static_cast<std::size_t>(begin)]);
    }
    EXPECT_THROW(corpus.read(at, std::span(tokens).first(1)), Failure);
  }
}

TEST(Corpus, ReadPairsReturnsNextTokensAndCountsBytes) {
  const TemporaryFile file(
      "a\xC3\xA9"
      "b\xE2\x82\xAC");
  const auto opened = std::make_shared<const InputFile>(file.path());
  const Corpus corpus(opened, Tokenizer::characters_of(*opened, false));  // a b e-acute euro
  std::vector<std::int64_t> tokens(3);
  std::vector<std::int64_t> targets(3);
  std::int64_t bytes = 10;
  const CorpusPosition after = corpus.read_pairs({}, tokens, targets, bytes);
  EXPECT_THAT(tokens, ::testing::ElementsAre(0, 2, 1));
  EXPECT_THAT(targets, ::testing::ElementsAre(2, 1, 3));
  EXPECT_EQ(bytes, 10 + 2 + 1 + 3);
  EXPECT_EQ(after, (CorpusPosition{3, 4}));
}

TEST(Corpus, RejectsUnknownCharactersUnlessAllowed) {
  const TemporaryFile train("abc");
  const TemporaryFile validation("abcab\xC3\xA9");
  const Tokenizer strict = Tokenizer::characters_of(InputFile(train.path()), false);
  EXPECT_EQ(message_of<DataError>([&] { Corpus(validation.path(), strict); }),
            validation.path() +
                ": byte 5: character U+00E9 '\xC3\xA9' is not in the vocabulary of 3 characters; "
                "set data.tokenizer.allow_unk to true to map such characters to <unknown>");
  const Tokenizer tolerant = Tokenizer::characters_of(InputFile(train.path()), true);
  const Corpus corpus(validation.path(), tolerant);
  std::vector<std::int64_t> tokens(6);
  EXPECT_EQ(corpus.read({}, tokens).byte, 7);
  EXPECT_EQ(tokens.back(), 0);
}

TEST(Corpus, ReportsFileTruncatedWhileReading) {
  const TemporaryFile file(mixed_text(100'000));
  const auto opened = std::make_shared<const InputFile>(file.path());
  const Corpus corpus(opened, Tokenizer::characters_of(*opened, false));
  std::vector<std::int64_t> tokens(90'000);
  file.resize(5000);
  EXPECT_THAT(message_of<DataError>([&] { corpus.read({}, tokens); }),
              HasSubstr("truncated while reading"));
}

TEST(Corpus, FingerprintDistinguishesTextsAndTokenizers) {
  const std::string text = mixed_text(300'000);
  const TemporaryFile file(text);
  const TemporaryFile copy(text);
  const std::uint64_t print = Corpus(file.path(), Tokenizer()).fingerprint();
  EXPECT_EQ(Corpus(copy.path(), Tokenizer()).fingerprint(), print);
  const Tokenizer characters = Tokenizer::characters_of(InputFile(file.path()), false);
  EXPECT_NE(Corpus(file.path(), characters).fingerprint(), print);
  std::string other = text;
  other[text.size() / 2] = 'b';
  copy.write(other);
  EXPECT_NE(Corpus(copy.path(), Tokenizer()).fingerprint(), print);
  copy.write(text + "a");
  EXPECT_NE(Corpus(copy.path(), Tokenizer()).fingerprint(), print);
}

TEST(Corpus, WholeHashCoversEveryByte) {
  std::string text = mixed_text(3'000'000);
  const TemporaryFile file(text);
  const Corpus bytes(file.path(), Tokenizer());
  const Corpus characters(file.path(), Tokenizer::characters_of(InputFile(file.path()), false));
  const std::uint64_t hash = bytes.full_hash(bytes.bytes()).value();
  EXPECT_EQ(hash, XXH3_64bits(text.data(), text.size()));
  EXPECT_EQ(characters.full_hash(0), hash);
  EXPECT_FALSE(bytes.full_hash(bytes.bytes() - 1).has_value());
  // Flips a bit between two sampled blocks.
  const std::uint64_t print = bytes.fingerprint();
  const std::size_t place = text.size() / 256 * 100 + 8000;
  text[place] = static_cast<char>(text[place] ^ 1);
  file.write(text);
  const Corpus changed(file.path(), Tokenizer());
  EXPECT_EQ(changed.fingerprint(), print);
  EXPECT_NE(changed.full_hash(changed.bytes()), hash);
}

}  // namespace
}  // namespace longspan::corpus_test
