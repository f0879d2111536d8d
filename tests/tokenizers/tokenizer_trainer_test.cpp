#include "framework/tokenizers/tokenizer_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "framework/core/error.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan::tokenizer_trainer_test {
namespace {

using ::testing::HasSubstr;

std::string text_of_words(unsigned seed = 1) {
  constexpr std::array syllables = {"ba", "lo", "tir", "men", "ka", "su", "\u00e9t", "ro", "NI"};
  std::mt19937 random(seed);
  std::string text;
  for (int word = 0; word < 2000; ++word) {
    text += random() % 12 == 0 ? (random() % 3 == 0 ? ".\n\n" : ", ") : " ";
    for (unsigned part = 0; part < 1 + random() % 3; ++part)
      text += syllables[random() % syllables.size()];
    if (random() % 20 == 0) text += " 1984";
  }
  return text;
}

std::string trained(const TokenizerRules& rules, const std::string& text) {
  const TokenizerTrainer trainer(rules);
  return trainer.train(trainer.count(text), "text.txt");
}

TokenizerRules rules_of(TrainedKind kind, std::int64_t vocabulary) {
  TokenizerRules rules = usual_rules(kind);
  rules.vocabulary = vocabulary;
  return rules;
}

TEST(TokenizerTrainer, BytePairsRoundTripText) {
  const std::string text = text_of_words();
  for (const WordCut cut : {WordCut::gpt2, WordCut::llama3}) {
    TokenizerRules rules = rules_of(TrainedKind::byte_pairs, 330);
    rules.cut = cut;
    const JsonTokenizer tokenizer(trained(rules, text), "t.json");
    EXPECT_EQ(tokenizer.vocabulary(), 330);
    EXPECT_EQ(tokenizer.token(0), "<|endoftext|>");
    EXPECT_TRUE(tokenizer.is_special(0));
    EXPECT_EQ(tokenizer.token(1), "!");  // the letters of all bytes, in order
    EXPECT_EQ(tokenizer.token(256), "\u0143");
    for (std::int64_t id = 0; id < 330; ++id) EXPECT_NE(tokenizer.token(id), "") << id;
    const std::string other = text + "  \t\u4e2d\u6587\U0001F600\r\n x\x01";
    const std::vector<std::int64_t> ids = tokenizer.ids(other, "text");
    EXPECT_LT(ids.size(), other.size() / 2);
    EXPECT_EQ(tokenizer.decode(ids), other);
  }
}

TEST(TokenizerTrainer, WordPiecesFollowBertConventions) {
  const std::string text = text_of_words();
  for (const MergeScore score : {MergeScore::likelihood, MergeScore::frequency}) {
    TokenizerRules rules = rules_of(TrainedKind::word_pieces, 120);
    rules.score = score;
    const JsonTokenizer tokenizer(trained(rules, text), "t.json");
    EXPECT_EQ(tokenizer.vocabulary(), 120);
    EXPECT_EQ(tokenizer.token(1), "[UNK]");
    EXPECT_EQ(tokenizer.before(), std::vector<std::int64_t>{2});
    EXPECT_EQ(tokenizer.after(), std::vector<std::int64_t>{3});
    EXPECT_EQ(tokenizer.decode(tokenizer.ids("BALO \u00c9tka, 1984", "text")), "balo etka, 1984");
    EXPECT_EQ(tokenizer.decode(tokenizer.ids("balo \u4e2d", "text")), "balo [UNK]");
  }
  TokenizerRules rules = rules_of(TrainedKind::word_pieces, 120);
  rules.lowercase = false;
  const JsonTokenizer cased(trained(rules, text), "t.json");
  EXPECT_EQ(cased.decode(cased.ids("NI \u00e9t", "text")), "NI \u00e9t");
}

TEST(TokenizerTrainer, SpecialTokensHaveFirstIds) {
  TokenizerRules rules = rules_of(TrainedKind::byte_pairs, 300);
  rules.special = {"<s>", "\u00e9", "two words", "bal"};
  const JsonTokenizer tokenizer(trained(rules, text_of_words()), "t.json");
  for (std::size_t id = 0; id < rules.special.size(); ++id)
    EXPECT_EQ(tokenizer.token(static_cast<std::int64_t>(id)), rules.special[id]);
  EXPECT_THAT(tokenizer.ids("<s>two words", "text"), ::testing::ElementsAre(0, 2));
  EXPECT_EQ(tokenizer.decode(tokenizer.ids("ba lo tir", "text")), "ba lo tir");
  rules = rules_of(TrainedKind::word_pieces, 120);
  rules.special = {"<s>"};
  const JsonTokenizer pieces(trained(rules, text_of_words()), "t.json");
  EXPECT_EQ(pieces.token(0), "[UNK]");
  EXPECT_EQ(pieces.token(1), "<s>");
  EXPECT_TRUE(pieces.before().empty());
}

TEST(TokenizerTrainer, DoesNotDependOnWordOrder) {
  const std::string one = text_of_words(1);
  const std::string other = text_of_words(2);
  for (const TrainedKind kind : {TrainedKind::byte_pairs, TrainedKind::word_pieces}) {
    const TokenizerTrainer trainer(rules_of(kind, 320));
    WordCounts counts = trainer.count(one);
    counts.add(trainer.count(other));
    WordCounts reversed = trainer.count(other);
    reversed.add(trainer.count(one));
    EXPECT_EQ(trainer.train(counts, "t"), trainer.train(reversed, "t"));
  }
}

TEST(TokenizerTrainer, RejectsUnsuitableVocabularyOrSpecialTokens) {
  const auto refusal = [](const TokenizerRules& rules) -> std::string {
    try {
      trained(rules, "low low low lower newest newest widest");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(rules_of(TrainedKind::byte_pairs, 256)),
              HasSubstr("text.txt: a vocabulary of 256 is too small: its 256 bytes and the special "
                        "tokens require 257; set data.tokenizer.vocab_size to at least 257"));
  EXPECT_THAT(
      refusal(rules_of(TrainedKind::byte_pairs, 400)),
      AllOf(HasSubstr("text.txt: a vocabulary of 400 is too large: its repeated pairs yield 26"),
            HasSubstr("; set data.tokenizer.vocab_size to at most 26")));
  EXPECT_THAT(refusal(rules_of(TrainedKind::word_pieces, 10)), HasSubstr("its characters and"));
  TokenizerRules rules = rules_of(TrainedKind::byte_pairs, 258);
  rules.special = {"<s>", "<s>"};
  EXPECT_THAT(refusal(rules), HasSubstr("duplicate special token \"<s>\""));
  rules.special = {""};
  EXPECT_THAT(refusal(rules), HasSubstr("expected a UTF-8 string"));
}

}  // namespace
}  // namespace longspan::tokenizer_trainer_test
