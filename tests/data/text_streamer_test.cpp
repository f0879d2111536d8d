#include <gtest/gtest.h>

#include "framework/core/utf8.h"
#include "framework/data/tokenization/tokenizer.h"
#include "tests/data/subword_text.h"

namespace longspan::text_streamer_test {
namespace {

// Streams tokens one by one. Checks that each piece consists of whole characters.
std::string streamed(const Tokenizer& tokenizer,
                     std::span<const std::int64_t> before,
                     std::span<const std::int64_t> ids) {
  TextStreamer text(tokenizer, before);
  std::string all;
  for (const std::int64_t id : ids) {
    const std::string piece = text.push(id);
    for (std::size_t at = 0; at < piece.size();) {
      const Utf8Character character = decode_utf8(piece.substr(at));
      EXPECT_EQ(character.status, Utf8Status::valid);
      at += static_cast<std::size_t>(character.width);
    }
    all += piece;
  }
  return all + text.finish();
}

TEST(TextStreamer, StreamedTextMatchesDecodedTokens) {
  const std::string text =
      "balo tir\n\n  \xE6\xBC\xA2 \xF0\x9F\x98\x80\xC3\xA9t men\n x \xE2\x81\x87";
  for (const SentencePieceModelType kind : {SentencePieceModelType::unigram,
                                            SentencePieceModelType::bpe,
                                            SentencePieceModelType::words}) {
    const Tokenizer tokenizer = Tokenizer::subwords(subword_model(kind));
    const auto ids = tokenizer.encode(text, "text");
    EXPECT_EQ(streamed(tokenizer, {}, ids), text);
    for (std::size_t begin = 1; begin < ids.size(); ++begin) {
      const auto before = std::span(ids).first(begin);
      const std::string decoded = tokenizer.decode(before);
      if (decoded.ends_with("\xEF\xBF\xBD")) continue;  // split character
      EXPECT_EQ(decoded + streamed(tokenizer, before, std::span(ids).subspan(begin)), text);
    }
  }
}

TEST(TextStreamer, EmitsInvalidBytesWithoutWaitingForever) {
  const Tokenizer tokenizer = Tokenizer::subwords(subword_model());
  const auto character = tokenizer.encode("\xE6\xBC\xA2", "text");  // one token per byte
  ASSERT_EQ(character.size(), 3);
  TextStreamer text(tokenizer, {});
  std::string all;
  for (int i = 0; i < 8; ++i) all += text.push(character[0]);
  EXPECT_FALSE(all.empty());
  all += text.push(tokenizer.encode("b", "text")[0]);
  all += text.finish();
  EXPECT_TRUE(all.ends_with("b"));
}

TEST(TextStreamer, ByteTokenizerEmitsEachByte) {
  TextStreamer text(Tokenizer(), {});
  EXPECT_EQ(text.push(0xC3), "\xC3");
  EXPECT_EQ(text.push(0xA9), "\xA9");
  EXPECT_EQ(text.finish(), "");
}

}  // namespace
}  // namespace longspan::text_streamer_test
