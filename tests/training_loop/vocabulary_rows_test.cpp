// Correspondence of embedding rows between two vocabularies.
#include <gtest/gtest.h>

#include <string_view>

#include "framework/training_loop/loading.h"
#include "tests/data/subword_text.h"

namespace longspan::vocabulary_rows_test {
namespace {

using Rows = std::vector<std::int64_t>;

Tokenizer of(std::u32string_view text, bool with_unknown = false) {
  return Tokenizer::characters(text, with_unknown);
}

TEST(MatchingRows, MatchesEqualCharacters) {
  const Tokenizer from = of(U"abdµ"), to = of(U"µdcba€");
  EXPECT_EQ(matching_rows({from, 4}, {to, 6}), (Rows{0, 1, -1, 2, 3, -1}));
  EXPECT_EQ(matching_rows({to, 6}, {from, 4}), (Rows{0, 1, 3, 4}));
  EXPECT_EQ(matching_rows({from, 4}, {of(U"xyz"), 3}), (Rows{-1, -1, -1}));
}

TEST(MatchingRows, MatchesUnknownCharacter) {
  const Tokenizer plain = of(U"ab"), open = of(U"ac", true);
  EXPECT_EQ(matching_rows({plain, 2}, {open, 3}), (Rows{-1, 0, -1}));
  EXPECT_EQ(matching_rows({open, 3}, {plain, 2}), (Rows{1, -1}));
  EXPECT_EQ(matching_rows({open, 3}, {of(U"abc", true), 4}), (Rows{0, 1, -1, 2}));
  // U+FFFD, its replacement in a text, is an ordinary character.
  EXPECT_EQ(matching_rows({open, 3}, {of(U"a\uFFFD", true), 3}), (Rows{0, 1, -1}));
}

TEST(MatchingRows, EqualTokenizersMatchInEveryRow) {
  const Tokenizer letters = of(U"ab");
  EXPECT_EQ(matching_rows({letters, 2}, {letters, 4}), (Rows{0, 1, -1, -1}));
  EXPECT_EQ(matching_rows({letters, 4}, {letters, 3}), (Rows{0, 1, 2}));
  const Rows bytes = matching_rows({Tokenizer(), 256}, {Tokenizer(), 258});
  EXPECT_EQ(bytes[255], 255);
  EXPECT_EQ(bytes[256], -1);
}

TEST(MatchingRows, IgnoresRowsBeyondTheIds) {
  EXPECT_EQ(matching_rows({of(U"ab"), 3}, {of(U"abc"), 5}), (Rows{0, 1, -1, -1, -1}));
}

TEST(MatchingRows, MatchesEqualIdsWithoutText) {
  const Tokenizer three = Tokenizer::ids(3), four = Tokenizer::ids(4);
  EXPECT_EQ(matching_rows({three, 4}, {four, 5}), (Rows{0, 1, 2, -1, -1}));
  EXPECT_EQ(matching_rows({four, 4}, {three, 3}), (Rows{0, 1, 2}));
}

TEST(MatchingRows, MatchesSubwordsByPiece) {
  const SentencePieceModel from = subword_model(SentencePieceModelType::bpe, 300),
                           to = subword_model();
  const Rows rows = matching_rows({Tokenizer::subwords(from), 300}, {Tokenizer::subwords(to), 320});
  ASSERT_EQ(std::ssize(rows), 320);
  std::int64_t found = 0;
  for (std::int64_t id = 0; id < 320; ++id) {
    const std::int64_t row = rows[static_cast<std::size_t>(id)];
    if (row < 0) continue;
    EXPECT_EQ(from.piece(row), to.piece(id));
    ++found;
  }
  EXPECT_EQ(found, 300);  // the larger model only adds merges
}

}  // namespace
}  // namespace longspan::vocabulary_rows_test
