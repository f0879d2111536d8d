#include "framework/data/tokenization/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/data/corpus/corpus.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "tests/data/temporary_file.h"

namespace longspan::tokenizer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tokenizer characters_of(std::string_view text, bool with_unknown) {
  const TemporaryFile file(text);
  return Tokenizer::characters_of(InputFile(file.path()), with_unknown);
}

Tokenizer pairs_of_letters(const std::string& merges) {
  return Tokenizer::from_huggingface(JsonTokenizer(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "ba": 3}, "merges": [)" +
          merges + "]}}",
      "a.json"));
}

TEST(Tokenizer, TokenizerJsonRoundTripsThroughCheckpoint) {
  const Tokenizer one = pairs_of_letters(R"("a b")"), other = pairs_of_letters(R"("b a")");
  EXPECT_EQ(one.kind(), TokenizerKind::tokenizer_json);
  EXPECT_EQ(one.vocabulary(), 4);
  EXPECT_THAT(one.encode("abab", "text"), ElementsAre(2, 2));
  EXPECT_THAT(other.encode("abab", "text"), ElementsAre(0, 3, 1));
  EXPECT_NE(one, other);
  EXPECT_NE(one.fingerprint(), other.fingerprint());
  EXPECT_NE(one, Tokenizer());
  const Tokenizer again = Tokenizer::from_json(one.to_json(), "checkpoint");
  EXPECT_EQ(again, one);
  EXPECT_EQ(again.fingerprint(), one.fingerprint());
  EXPECT_THAT(again.encode("ab", "text"), ElementsAre(2));
}

TEST(Tokenizer, BytesRoundTripAnyFile) {
  const Tokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocabulary(), 256);
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  const auto ids = tokenizer.encode(text, "text");
  EXPECT_EQ(ids[255], 255);
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(Tokenizer, NumbersCharactersInAscendingOrder) {
  const Tokenizer tokenizer = characters_of(
      "z\xC3\xA9"
      "a\na\xF0\x9F\x98\x80z",
      false);
  EXPECT_EQ(tokenizer.vocabulary(), 5);
  EXPECT_THAT(tokenizer.encode("\naz\xC3\xA9\xF0\x9F\x98\x80", "text"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(tokenizer,
            characters_of("\xF0\x9F\x98\x80\nz\xC3\xA9"
                          "a",
                          false));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("\xC3\xA9z", "text")), "\xC3\xA9z");
}

TEST(Tokenizer, ReportsUnknownCharacterWithByte) {
  const Tokenizer tokenizer = characters_of("abc", false);
  EXPECT_EQ(message_of<DataError>([&] { tokenizer.encode("ab\xC3\xA9", "prompt"); }),
            "prompt: byte 2: character U+00E9 '\xC3\xA9' is not in the vocabulary of 3 characters; "
            "set data.tokenizer.allow_unk to true to map such characters to <unknown>");
}

TEST(Tokenizer, MapsUnknownCharactersToFirstIdIfAllowed) {
  const Tokenizer tokenizer = characters_of("abc", true);
  EXPECT_EQ(tokenizer.vocabulary(), 4);
  EXPECT_THAT(tokenizer.encode("a\xC3\xA9z", "prompt"), ElementsAre(1, 0, 0));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int64_t>{3, 0}), "c\xEF\xBF\xBD");
}

TEST(Tokenizer, UnknownNatsCountCharactersOutsideVocabulary) {
  EXPECT_DOUBLE_EQ(characters_of("abc", true).unknown_nats(), std::log(0x110000 - 0x800 - 3));
  EXPECT_EQ(characters_of("abc", false).unknown_nats(), 0);
  EXPECT_EQ(Tokenizer().unknown_nats(), 0);
}

TEST(Tokenizer, RejectsInvalidUtf8WithByte) {
  EXPECT_THAT(message_of<DataError>([] { characters_of("caf\xE9 au lait", false); }),
              HasSubstr(": byte 3: expected UTF-8, found bytes e9 20"));
  EXPECT_THAT(message_of<DataError>([] { characters_of("ab\xE2\x82", false); }),
              HasSubstr(": byte 2: expected UTF-8, found an incomplete character at the end (bytes "
                        "e2 82)"));
}

TEST(Tokenizer, ReadsCharactersAcrossBlockBoundaries) {
  // Blocks have 2^18 bytes. Shifts of 0 to 3 bytes split a character at every offset.
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'a');
    while (text.size() < (std::size_t{1} << 19) + 8) text += "\xF0\x9F\x98\x80";
    EXPECT_EQ(characters_of(text, false).vocabulary(), shift == 0 ? 1 : 2);
  }
}

TEST(Tokenizer, ReportsProgressAndStopsIfListenerThrows) {
  const std::int64_t size = (std::int64_t{1} << 20) + 5;
  const TemporaryFile file(std::string(static_cast<std::size_t>(size), 'a'));
  const InputFile opened(file.path());
  std::vector<std::int64_t> reports;
  Tokenizer::characters_of(opened, false, [&](const ScanProgress& progress) {
    EXPECT_EQ(progress.path, file.path());
    EXPECT_EQ(progress.size, size);
    reports.push_back(progress.done);
  });
  EXPECT_THAT(reports, ElementsAre(1 << 18, 2 << 18, 3 << 18, 4 << 18, size));
  const ProgressCallback stop = [](const ScanProgress& progress) {
    throw Failure("at byte {}", progress.done);
  };
  EXPECT_EQ(message_of<Failure>([&] { Tokenizer::characters_of(opened, false, stop); }),
            "at byte 262144");
  const Tokenizer tokenizer = characters_of("a", false);
  EXPECT_EQ(message_of<Failure>([&] { Corpus(file.path(), tokenizer, stop); }), "at byte 262144");
}

TEST(Tokenizer, RoundTripsThroughJson) {
  for (const bool with_unknown : {false, true}) {
    const Tokenizer tokenizer =
        characters_of(std::string("\0\"\\\x7F\xC3\xA9\xF4\x8F\xBF\xBF", 10), with_unknown);
    const std::string json = tokenizer.to_json();
    const Tokenizer read = Tokenizer::from_json(json, "tokenizer.json");
    EXPECT_EQ(read, tokenizer);
    EXPECT_EQ(read.to_json(), json);
    EXPECT_EQ(read.fingerprint(), tokenizer.fingerprint());
    EXPECT_NE(read.fingerprint(), Tokenizer().fingerprint());
    EXPECT_FALSE(read == Tokenizer());
  }
  EXPECT_EQ(Tokenizer::from_json(Tokenizer().to_json(), "tokenizer.json"), Tokenizer());
  EXPECT_FALSE(characters_of("ab", true) == characters_of("ab", false));
}

TEST(Tokenizer, RejectsInvalidJson) {
  const auto error_of = [](std::string_view json) {
    return message_of<DataError>([&] { Tokenizer::from_json(json, "t.json"); });
  };
  EXPECT_THAT(error_of("{"), HasSubstr("t.json: not a Longspan tokenizer"));
  EXPECT_THAT(error_of("[]"), HasSubstr("t.json: not a Longspan tokenizer"));
  const std::string head = R"({"format":"longspan-tokenizer","version":1,"kind":)";
  EXPECT_THAT(error_of(head + R"("words"})"), HasSubstr("unknown stored tokenizer type \"words\""));
  EXPECT_THAT(error_of(head + R"("characters","unknown":false,"characters":["ab"]})"),
              HasSubstr("expected one character, found \"ab\""));
  EXPECT_THAT(error_of(head + R"("characters","unknown":false,"characters":["b","a"]})"),
              HasSubstr("\"a\" is out of order"));
  EXPECT_THAT(error_of(head + R"("characters","unknown":false,"characters":[]})"),
              HasSubstr("at least one character"));
  EXPECT_THAT(error_of(head + R"("characters","unknown":false})"), HasSubstr("t.json"));
  EXPECT_THAT(error_of(R"({"format":"longspan-tokenizer","version":9,"kind":"bytes"})"),
              HasSubstr("expected tokenizer format 1, found 9"));
}

TEST(Tokenizer, DecodeRejectsIdOutsideVocabulary) {
  EXPECT_EQ(message_of<DataError>([] { Tokenizer().decode(std::vector<std::int64_t>{256}); }),
            "token 256 is out of range for the vocabulary of 256 ids");
}

TEST(Tokenizer, SurvivesDamagedJson) {
  const std::string json = characters_of("abc\xC3\xA9", true).to_json();
  std::mt19937 generator(7);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = json;
    damaged[generator() % damaged.size()] = static_cast<char>(generator() % 256);
    try {
      const Tokenizer tokenizer = Tokenizer::from_json(damaged, "t.json");
      EXPECT_GE(tokenizer.vocabulary(), 1);
    } catch (const DataError&) {
    }
  }
}

}  // namespace
}  // namespace longspan::tokenizer_test
