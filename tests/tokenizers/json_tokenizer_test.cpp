#include "framework/tokenizers/json_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "framework/core/error.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"
#include "tests/tokenizers/expected_ids.h"

namespace longspan::json_tokenizer_test {
namespace {

using ::testing::HasSubstr;

const ExpectedTokenizer& expected(const std::string& name) {
  static const std::vector<ExpectedTokenizer> all = expected_tokenizers();
  for (const ExpectedTokenizer& one : all)
    if (one.name == name) return one;
  throw Failure("no tokenizer {}", name);
}

std::string refusal(const std::string& json) {
  try {
    JsonTokenizer(json, "t.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(JsonTokenizer, MatchesPackageIdsAndTexts) {
  std::size_t texts = 0;
  for (const ExpectedTokenizer& one : expected_tokenizers()) {
    SCOPED_TRACE(one.name);
    const JsonTokenizer tokenizer(one.json, one.name);
    for (const ExpectedText& sample : one.texts) {
      SCOPED_TRACE(sample.text);
      EXPECT_EQ(tokenizer.ids(sample.text, "text"), sample.ids);
      EXPECT_EQ(tokenizer.ids(sample.text, "text", true), sample.with_template);
      EXPECT_EQ(tokenizer.decode(sample.ids), sample.decoded);
      ++texts;
    }
  }
  EXPECT_GT(texts, 80U);
}

TEST(JsonTokenizer, TokenEndsDoNotDecrease) {
  for (const ExpectedTokenizer& one : expected_tokenizers()) {
    SCOPED_TRACE(one.name);
    const JsonTokenizer tokenizer(one.json, one.name);
    for (const ExpectedText& sample : one.texts) {
      std::int64_t end = 0;
      tokenizer.encode(sample.text, "text", [&](const JsonToken& token) {
        EXPECT_GE(token.end, end);
        end = token.end;
      });
      EXPECT_LE(end, std::ssize(sample.text));
    }
  }
}

TEST(JsonTokenizer, ByteLevelTokensDecodeToTheirBytes) {
  const JsonTokenizer tokenizer(expected("ByteLevel").json, "t.json");
  const std::string text = "hello w\u00f6rld's  \u4e2d\U0001F600\n\n x";
  std::int64_t end = 0;
  tokenizer.encode(text, "text", [&](const JsonToken& token) {
    const auto part =
        text.substr(static_cast<std::size_t>(end), static_cast<std::size_t>(token.end - end));
    EXPECT_EQ(tokenizer.decode({&token.id, 1}), part);
    end = token.end;
  });
  EXPECT_EQ(end, std::ssize(text));
}

// Short words are merged by linear search, long words with a heap.
TEST(JsonTokenizer, MergesLongWordsAsShortWords) {
  const JsonTokenizer tokenizer(expected("ByteLevel").json, "t.json");
  std::mt19937 random(7);
  const std::string letters = "helowrd";
  for (int round = 0; round < 200; ++round) {
    // No merge contains q, so q divides a long word into short ones.
    std::string word;
    std::vector<std::int64_t> joined;
    for (int part = 0; part < 8; ++part) {
      std::string piece;
      for (int i = 0; i < 10; ++i) piece += letters[random() % letters.size()];
      word += piece + "q";
      for (const std::int64_t id : tokenizer.ids(piece, "t")) joined.push_back(id);
      joined.push_back(tokenizer.id_of("q"));
    }
    EXPECT_EQ(tokenizer.ids(word, "t"), joined);
  }
}

TEST(JsonTokenizer, EncodesWordsOfMegabytes) {
  const JsonTokenizer tokenizer(expected("ByteLevel").json, "t.json");
  std::string line(4'000'000, 'l');
  for (std::size_t i = 0; i < line.size(); i += 3) line[i] = 'h';
  EXPECT_EQ(tokenizer.decode(tokenizer.ids(line, "t")), line);
  EXPECT_EQ(tokenizer.ids(std::string(2'000'000, ' '), "t").size(), 1'000'000U);
}

TEST(JsonTokenizer, Gpt2VocabAndMergesMatchTokenizerJson) {
  const auto file = nlohmann::json::parse(expected("ByteLevel").json);
  std::string merges = "#version: 0.2\n";
  for (const auto& pair : file["model"]["merges"])
    merges += pair[0].get<std::string>() + " " + pair[1].get<std::string>() + "\n";
  const JsonTokenizer tokenizer(
      json_of_merges(file["model"]["vocab"].dump(), "vocab.json", merges, "merges.txt"), "folder");
  for (const ExpectedText& sample : expected("ByteLevel").texts)
    EXPECT_EQ(tokenizer.ids(sample.text, "text"), sample.ids);
  EXPECT_THROW(json_of_merges("{\"a\": 0}", "vocab.json", "a\n", "merges.txt"), DataError);
}

// CLIP lowercases, ends words with </w> and adds its special tokens.
TEST(JsonTokenizer, ReadsClipVocabAndMerges) {
  nlohmann::ordered_json vocabulary;
  const auto add = [&vocabulary](const std::string& piece) {
    vocabulary.emplace(piece, vocabulary.size());
  };
  for (const char32_t letter : byte_to_unicode())
    for (const char* end : {"", "</w>"}) add(utf8_of(letter) + end);
  for (const char* piece : {"ca", "cat</w>", "<|startoftext|>", "<|endoftext|>"}) add(piece);
  const JsonTokenizer tokenizer(
      json_of_merges(
          vocabulary.dump(), "vocab.json", "#version: 0.2\nc a\nca t</w>\n", "merges.txt"),
      "folder");
  const std::vector<std::int64_t> ids = tokenizer.ids("A  CAT's\n", "text");
  std::vector<std::string> pieces;
  for (const std::int64_t id : ids) pieces.push_back(tokenizer.token(id));
  EXPECT_THAT(pieces, ::testing::ElementsAre("a</w>", "cat</w>", "'", "s</w>"));
  EXPECT_EQ(tokenizer.decode(ids), "a cat 's");
  EXPECT_EQ(tokenizer.token(tokenizer.before().at(0)), "<|startoftext|>");
}

TEST(JsonTokenizer, RejectsVocabAndMergesOfOtherModels) {
  const auto refused = [](const std::string& vocabulary, const std::string& merges) -> std::string {
    try {
      json_of_merges(vocabulary, "vocab.json", merges, "merges.txt");
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refused(R"({"a": 0, "b</w>": 1, "ab</w>": 2})", "a b</w>\n"),
              HasSubstr("pieces that end in </w> without <|startoftext|>"));
  EXPECT_THAT(refused(R"({"a": 0, "b": 1, "ab": 2})", "a b\n"), HasSubstr("no piece for a space"));
}

TEST(JsonTokenizer, DecodeSkipsSpecialTokensOnRequest) {
  const JsonTokenizer tokenizer(expected("Llama2").json, "t.json");
  const std::vector<std::int64_t> ids = tokenizer.ids("hello", "t", true);
  EXPECT_EQ(ids.front(), 1);
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_EQ(tokenizer.decode(ids, true), "hello");
}

TEST(JsonTokenizer, RejectsUnsupportedValuesWithPath) {
  const std::string good = expected("Llama2").json;
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal("{"), HasSubstr("t.json: invalid JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("t.json: expected an object, found a list of 0"));
  EXPECT_THAT(refusal(replaced(good, "\"Prepend\"", "\"Append\"")),
              HasSubstr("t.json: normalizer.normalizers[0].type: expected one of NFC"));
  EXPECT_THAT(refusal(replaced(good, "\"ByteFallback\"", "\"CTC\"")),
              HasSubstr("t.json: decoder.decoders[1].type: expected one of ByteLevel"));
  EXPECT_THAT(refusal(replaced(good, "\"BPE\"", "\"Morse\"")), HasSubstr("t.json: model.type"));
  EXPECT_THAT(refusal(replaced(good, "[\"l\", \"l\"]", "[\"l\", \"zz\"]")),
              HasSubstr("t.json: model.merges[1]"));
  EXPECT_THAT(refusal(replaced(good, "\"ids\": [1]", "\"ids\": [9999]")), HasSubstr("9999"));
  EXPECT_THAT(refusal(replaced(good, "\"<0x00>\": 3", "\"<0x00>\": 16000000")),
              HasSubstr("expected an integer"));
  EXPECT_THAT(refusal(replaced(good, "\"id\": 2,", "\"id\": 5,")), HasSubstr("added_tokens[2].id"));
}

TEST(JsonTokenizer, RejectsUnsupportedRegularExpressions) {
  const std::string good = expected("SplitIsolatedFalse").json;
  const auto with = [&good](const std::string& expression) {
    return replaced(good, "{\"String\": \"-\"}", nlohmann::json({{"Regex", expression}}).dump());
  };
  EXPECT_EQ(refusal(with(R"(\s+(?!\S)|[^\s\p{L}]+|\x{4e2d})")), "");
  for (const char* expression : {"(",
                                 "[a&&b]",
                                 "[[a]b]",
                                 R"(\h)",
                                 R"(\K)",
                                 "(*LIMIT_MATCH=1)a",
                                 R"(\C)",
                                 "a{1,3}+",
                                 "a{,3}",
                                 "(?m:a.b)",
                                 "(?im)a.b",
                                 "(?-m)a"})
    EXPECT_THAT(refusal(with(expression)), HasSubstr("t.json: pre_tokenizer.pattern.Regex"))
        << expression;
}

// Returns a tokenizer.json with a vocabulary of single letters and further keys.
std::string letters_and(const std::string& more, const std::string& added = "") {
  return R"({"added_tokens": [)" + added + "], " + more +
         R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u2581": 2}, "merges": []}})";
}
std::string added_token(int id, const std::string& content, bool strips_right) {
  return nlohmann::json({{"id", id},
                         {"content", content},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", strips_right},
                         {"normalized", false},
                         {"special", true}})
      .dump();
}

// The package indents its files, with one line for each piece of a merge.
TEST(JsonTokenizer, AcceptsIndentedFiles) {
  nlohmann::ordered_json model = {{"type", "BPE"}, {"vocab", {}}, {"merges", {}}};
  std::vector<std::string> tokens;
  for (int i = 0; i < 26; ++i) tokens.push_back(std::string(1, static_cast<char>('a' + i)));
  for (std::size_t i = 0; tokens.size() < 12000; ++i) {
    model["merges"].push_back({tokens[i], tokens[i % 26]});
    tokens.push_back(tokens[i] + tokens[i % 26]);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) model["vocab"].emplace(tokens[i], i);
  const nlohmann::ordered_json file = {{"added_tokens", nlohmann::json::array()}, {"model", model}};
  EXPECT_EQ(refusal(file.dump(2)), "");
}

// As in the package, an unknown token precedes the next character with its own piece.
TEST(JsonTokenizer, MapsMissingFallbackBytesToUnknownToken) {
  for (const bool fuses : {false, true}) {
    nlohmann::ordered_json file = {{"added_tokens", nlohmann::json::array()},
                                   {"model",
                                    {{"type", "BPE"},
                                     {"unk_token", "?"},
                                     {"fuse_unk", fuses},
                                     {"byte_fallback", true},
                                     {"vocab", {{"?", 0}, {"a", 1}, {"<0xC3>", 2}, {"<0xA8>", 3}}},
                                     {"merges", nlohmann::json::array()}}}};
    const JsonTokenizer tokenizer(file.dump(), "t.json");
    EXPECT_THAT(tokenizer.ids("a\u00e9\u00e8a", "text"), ::testing::ElementsAre(1, 2, 3, 0, 1));
    const std::vector<std::int64_t> apart = {0, 0, 1};
    const std::vector<std::int64_t> fused = {0, 1};
    EXPECT_EQ(tokenizer.ids("\u00e9\u00e9a", "text"), fuses ? fused : apart);
  }
}

TEST(JsonTokenizer, AcceptsCharacterClassStartingWithBracket) {
  const JsonTokenizer tokenizer(
      letters_and(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[]b]+"},
                      "behavior": "Removed", "invert": false}, )"),
      "t.json");
  EXPECT_THAT(tokenizer.ids("a]]ba", "text"), ::testing::ElementsAre(0, 0));
}

TEST(JsonTokenizer, DoesNotPrependAfterStrippedSpaces) {
  const std::string strip =
      R"("normalizer": {"type": "Strip", "strip_left": true, "strip_right": false}, )";
  const JsonTokenizer plain(letters_and(strip), "t.json");
  EXPECT_THAT(plain.ids("   ", "text"), ::testing::IsEmpty());
  EXPECT_THAT(plain.ids("  ab", "text"), ::testing::ElementsAre(0, 1));
  const JsonTokenizer first(
      letters_and(strip + R"("pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581",
                                               "prepend_scheme": "first", "split": true}, )"),
      "t.json");
  EXPECT_THAT(first.ids("  a", "text"), ::testing::ElementsAre(0));
  EXPECT_THAT(first.ids("a", "text"), ::testing::ElementsAre(2, 0));
}

TEST(JsonTokenizer, RejectsNonconsecutiveIds) {
  EXPECT_EQ(refusal(letters_and("", added_token(3, "<x>", false))), "");
  EXPECT_THAT(refusal(letters_and("", added_token(7, "<x>", false))),
              HasSubstr("added_tokens[0].id: expected at most 3, the next id, found 7"));
}

// The spaces that an added token strips may begin another added token.
TEST(JsonTokenizer, TokensThatShareSpacesHaveOrderedEnds) {
  const JsonTokenizer tokenizer(
      letters_and("", added_token(3, "<x>", true) + ", " + added_token(4, "\n", false)), "t.json");
  std::vector<std::int64_t> ends;
  tokenizer.encode(
      "a<x>\n\nba", "text", [&](const JsonToken& token) { ends.push_back(token.end); });
  for (std::size_t i = 1; i < ends.size(); ++i) EXPECT_GE(ends[i], ends[i - 1]);
  ASSERT_GE(ends.size(), 4U);
  EXPECT_EQ(ends[0], 1);
  EXPECT_EQ(ends[1], 6);
  EXPECT_EQ(ends[ends.size() - 2], 7);
  EXPECT_EQ(ends.back(), 8);
}

// The first step emits invalid UTF-8 to the second one.
TEST(JsonTokenizer, DecoderStepsReplaceInvalidUtf8) {
  for (const char* const second :
       {R"({"type": "ByteLevel"})",
        R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": "b"})"}) {
    const JsonTokenizer tokenizer(
        R"({"added_tokens": [], "decoder": {"type": "Sequence", "decoders": [
             {"type": "ByteLevel"}, )" +
            std::string(second) +
            R"(]}, "model": {"type": "BPE", "vocab": {"\u00c4": 0, "\u00f0": 1}, "merges": []}})",
        "t.json");
    for (const std::int64_t id : {0, 1})
      EXPECT_EQ(tokenizer.decode(std::vector<std::int64_t>{id}), "\xEF\xBF\xBD") << second;
  }
}

TEST(JsonTokenizer, LimitsRegexBacktracking) {
  const JsonTokenizer tokenizer(replaced(expected("SplitIsolatedFalse").json,
                                         "{\"String\": \"-\"}",
                                         "{\"Regex\": \"(a+)+[0-9]\"}"),
                                "t.json");
  EXPECT_THROW(tokenizer.ids(std::string(5000, 'a'), "text"), DataError);
}

// Returns a text of several chunks, with marks, spaces and added tokens between words.
std::string long_text() {
  std::mt19937 random(5);
  const std::vector<std::string> words = {"hello",
                                          "world",
                                          "caf\u00e9",
                                          "e\u0301",
                                          "\u4e2d\u6587",
                                          "  ",
                                          "\n\n",
                                          "12345",
                                          "it's",
                                          "\ud55c\uae00",
                                          "<mask>",
                                          "(x)",
                                          "\u2581",
                                          "<s>",
                                          "\u0301",
                                          "\u00a0",
                                          "I'LL...",
                                          "\u0435\u0308"};
  std::string text;
  while (text.size() < 150'000) {
    text += words[random() % words.size()];
    if (random() % 3 != 0) text += ' ';
  }
  return text;
}

TEST(JsonTokenizer, ChunkedEncodingMatchesWholeText) {
  const std::string text = long_text();
  std::size_t by_parts = 0;
  for (const ExpectedTokenizer& one : expected_tokenizers()) {
    SCOPED_TRACE(one.name);
    const JsonTokenizer tokenizer(one.json, one.name);
    if (!tokenizer.supports_chunking()) continue;
    ++by_parts;
    std::vector<std::pair<std::int64_t, std::int64_t>> whole, parts;
    const auto into = [](auto& tokens) {
      return [&tokens](const JsonToken& token) { tokens.emplace_back(token.id, token.end); };
    };
    tokenizer.encode(text, "text", into(whole));
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.size(), tokenizer.chunk_boundary(text, begin + 100));
      tokenizer.encode(std::string_view(text).substr(begin, end - begin),
                       "text",
                       into(parts),
                       static_cast<std::int64_t>(begin));
      begin = end;
    }
    EXPECT_EQ(parts, whole);
  }
  EXPECT_GT(by_parts, 8U);
}

TEST(JsonTokenizer, DisablesChunkingForContextDependentRules) {
  const auto goes = [](const std::string& more, const std::string& added = "") {
    return JsonTokenizer(letters_and(more, added), "t.json").supports_chunking();
  };
  const std::string metaspace = R"("pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581",
                                    "prepend_scheme": "first", "split": false}, )";
  EXPECT_TRUE(goes(metaspace));
  EXPECT_TRUE(goes(metaspace, added_token(3, "<x>", false)));
  EXPECT_FALSE(goes(metaspace, added_token(3, "<x>", true)));
  EXPECT_FALSE(goes(metaspace, added_token(3, "a b", false)));
  EXPECT_FALSE(goes(""));  // a space is an ordinary letter
  EXPECT_FALSE(goes(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a +b"},
                        "behavior": "Isolated", "invert": false}, )"));
  EXPECT_FALSE(goes(
      R"("normalizer": {"type": "Strip", "strip_left": true, "strip_right": true}, )" + metaspace));
  EXPECT_FALSE(goes(R"("normalizer": {"type": "Replace", "pattern": {"String": "x"},
                        "content": " "}, )" +
                    metaspace));
  const std::string merged = letters_and(metaspace);
  EXPECT_FALSE(
      JsonTokenizer(replaced(replaced(merged, R"("\u2581": 2)", R"("\u2581": 2, "a\u2581": 3)"),
                             R"("merges": [])",
                             R"("merges": [["a", "\u2581"]])"),
                    "t.json")
          .supports_chunking());
}

TEST(ChunkBoundaries, NormalFormsDoNotCrossBoundaryCharacters) {
  for (const bool compatible : {false, true})
    for (char32_t c = 0; c <= max_code_point; ++c) {
      std::u32string parts;
      append_decomposed(parts, c, compatible);
      ASSERT_FALSE(parts.empty());
      // A boundary character does not decompose to a leading mark, nor follow in a decomposition.
      ASSERT_FALSE(has_boundary_before(c) && mark_order(parts.front()) > 0)
          << std::hex << std::uint32_t{c};
      if (compatible) continue;
      for (std::size_t i = 1; i < parts.size(); ++i)
        ASSERT_FALSE(has_boundary_before(parts[i])) << std::hex << std::uint32_t{c};
    }
}

TEST(ChunkBoundaries, FindsSpaceAfterBoundaryCharacter) {
  EXPECT_EQ(blank_to_cut_at("ab cd", 0), 2U);
  EXPECT_EQ(blank_to_cut_at("ab  cd ef", 3), 6U);
  EXPECT_EQ(blank_to_cut_at(" ab", 0), std::string_view::npos);
  EXPECT_EQ(blank_to_cut_at("a\u0301 b\n c", 0), std::string_view::npos);
}

TEST(JsonTokenizer, RejectsInvalidUtf8WithByte) {
  const JsonTokenizer tokenizer(expected("ByteLevel").json, "t.json");
  try {
    tokenizer.ids("abc\xff", "book.txt");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("book.txt: byte 3"));
  }
}

TEST(JsonTokenizer, SurvivesDamagedFiles) {
  std::mt19937 random(11);
  for (const char* name : {"Llama2", "Unigram_always", "Bert", "AddedTokens"}) {
    const std::string good = expected(name).json;
    for (int round = 0; round < 150; ++round) {
      std::string bad = good;
      const std::size_t at = random() % bad.size();
      if (round % 3 == 0)
        bad.resize(at);
      else
        bad[at] = static_cast<char>(random() % 128);
      try {
        JsonTokenizer(bad, "t.json").ids("hello world <s> caf\u00e9", "text");
      } catch (const DataError&) {
      }
    }
  }
}

}  // namespace
}  // namespace longspan::json_tokenizer_test
