#include <gtest/gtest.h>

#include <random>

#include "framework/core/error.h"
#include "framework/data/tokenization/tokenizer_file.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "tests/data/subword_text.h"
#include "tests/data/third_party_model.h"

namespace longspan::package_tokenizer_test {
namespace {

// Returns words of the training text with inserted unknown characters.
std::string varied_lines(unsigned seed) {
  std::mt19937 generator(seed);
  const std::vector<std::string> odd = {
      "  ", "\t", "\n\n", "Z", "\u00e9", "\u4e2d", "\U0001F600", "<0x0A>", "12", "\u2581", "\r\n"};
  std::string text = subword_text(4, seed);
  for (int i = 0; i < 40; ++i)
    if (const std::size_t at = generator() % text.size();
        (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80)
      text.insert(at, odd[generator() % odd.size()]);
  return text;
}

void expect_equal_ids(const Tokenizer& tokenizer, const std::string& text) {
  const std::optional<std::string> json = package_json(tokenizer);
  ASSERT_TRUE(json);
  const JsonTokenizer package(*json, "tokenizer.json");
  const auto ids = tokenizer.encode(text, "text");
  EXPECT_EQ(package.ids(text, "text"), ids) << text;
  EXPECT_EQ(package.decode(ids), tokenizer.decode(ids)) << text;
}

TEST(PackageTokenizer, ByteTokenizerHasEqualIds) {
  for (const unsigned seed : {1, 2, 3}) expect_equal_ids(Tokenizer(), varied_lines(seed));
}

TEST(PackageTokenizer, CharacterTokenizerHasEqualIds) {
  const std::vector<char32_t> letters = {U'a', U'b', U' ', U'\n', U'\u00e9', U'\U0001F600'};
  for (const bool with_unknown : {false, true})
    expect_equal_ids(Tokenizer::characters(letters, with_unknown), "a b\u00e9\n\U0001F600 aa\n");
  const Tokenizer unknown = Tokenizer::characters(letters, true);
  const JsonTokenizer package(*package_json(unknown), "tokenizer.json");
  EXPECT_EQ(package.ids("axxb", "text"), unknown.encode("axxb", "text"));
}

TEST(PackageTokenizer, SubwordTokenizerHasEqualIds) {
  for (const SentencePieceModelType kind : {SentencePieceModelType::unigram,
                                            SentencePieceModelType::bpe,
                                            SentencePieceModelType::characters}) {
    SCOPED_TRACE(name_of(kind));
    const Tokenizer tokenizer = Tokenizer::subwords(
        subword_model(kind, kind == SentencePieceModelType::characters ? 1000 : 320));
    for (const unsigned seed : {1, 2, 3, 4, 5, 6}) expect_equal_ids(tokenizer, varied_lines(seed));
  }
}

TEST(PackageTokenizer, ThirdPartyModelHasEqualIds) {
  // The identity normalizer keeps white space other than spaces at both ends.
  const std::unordered_map<std::string, std::string> identity = {
      {"normalization_rule_name", "identity"}};
  for (const std::string& bytes : {foreign_model("false", "-1"),
                                   foreign_model("false", "2"),
                                   foreign_model("true", "2", identity),
                                   foreign_model("false", "-1", identity)}) {
    const Tokenizer tokenizer = Tokenizer::subwords(SentencePieceModel(bytes, "model"));
    const std::optional<std::string> json = package_json(tokenizer);
    ASSERT_TRUE(json);
    const JsonTokenizer package(*json, "tokenizer.json");
    for (const std::string text :
         {"balo tir", "  balo \n\n tir  men ", "\n balo\n", "\tbalo tir\t", "\u00a0balo\u3000"})
      EXPECT_EQ(package.ids(text, "text"), tokenizer.encode(text, "text"))
          << ::testing::PrintToString(text);
  }
}

TEST(PackageTokenizer, ReturnsNothingForWordModelsAndIds) {
  EXPECT_FALSE(package_json(Tokenizer::ids(10)));
  EXPECT_FALSE(package_json(Tokenizer::subwords(subword_model(SentencePieceModelType::words))));
}

}  // namespace
}  // namespace longspan::package_tokenizer_test
