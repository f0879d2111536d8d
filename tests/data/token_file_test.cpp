#include "framework/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "framework/core/error.h"
#include "tests/data/temporary_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::token_file_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t count = 150'000;  // three blocks

SubwordToken token(std::int64_t i, std::int64_t vocabulary) {
  return {(i * 7919 + i / 3) % vocabulary, i % 11 == 0 ? 65'535 * (i % 2) : i % 7};
}

bool begins_document(std::int64_t i) { return i % 3 == 0 && i % 7 != 1; }

TokenFileKey write_tokens(const std::filesystem::path& path, std::int64_t vocabulary) {
  const TokenFileKey key = {
      .text = 1, .tokenizer = 2, .form = 3, .file_bytes = 4, .vocabulary = vocabulary};
  TokenFileWriter writer(path, key);
  for (std::int64_t i = 0; i < count; ++i) {
    if (begins_document(i)) writer.begin_document();
    writer.add(token(i, vocabulary));
  }
  EXPECT_EQ(writer.tokens(), count);
  EXPECT_FALSE(std::filesystem::exists(path)) << "it is not whole";
  writer.finish({.num_skipped = 5, .source_bytes = 6, .source_lines = 7});
  return key;
}

TEST(TokenFile, ReadsEqualTokensFromAnyPosition) {
  for (const std::int64_t vocabulary : {65'536, 100'000}) {
    const testing::TemporaryDirectory folder;
    const auto path = folder.path() / "text.tokens";
    const TokenFile file(path, write_tokens(path, vocabulary));
    EXPECT_LT(std::filesystem::file_size(path),
              count * (vocabulary > 65'536 ? 6 : 4) + file.documents() * 8 + 200);
    ASSERT_EQ(file.tokens(), count);
    std::int64_t byte = 0;
    CorpusPosition at;
    std::vector<std::int64_t> ids;
    for (std::int64_t begin = 0; begin < count; begin += std::ssize(ids)) {
      ids.assign(
          static_cast<std::size_t>(std::min<std::int64_t>(1 + begin % 40'000, count - begin)), -1);
      ASSERT_EQ(file.seek(begin), (CorpusPosition{begin, byte}));
      at = file.read(at, ids);
      for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
        ASSERT_EQ(ids[static_cast<std::size_t>(i)], token(begin + i, vocabulary).id) << begin + i;
        byte += token(begin + i, vocabulary).bytes;
      }
      ASSERT_EQ(at, (CorpusPosition{begin + std::ssize(ids), byte}));
    }
    EXPECT_EQ(file.seek(count), at);
    EXPECT_EQ(file.bytes(), byte);
    EXPECT_EQ(file.end().num_skipped, 5);
    EXPECT_EQ(file.end().source_bytes, 6);
    EXPECT_EQ(file.end().source_lines, 7);
    std::vector<SubwordToken> tokens(70'000);
    file.read_tokens(50'000, tokens);
    for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
      const SubwordToken& found = tokens[static_cast<std::size_t>(i)];
      ASSERT_EQ(found.id, token(50'000 + i, vocabulary).id);
      ASSERT_EQ(found.bytes, token(50'000 + i, vocabulary).bytes);
    }
    std::int64_t document = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (begins_document(i)) {
        ASSERT_EQ(file.document_begin(document++), i);
      }
    }
    EXPECT_EQ(file.documents(), document);
    EXPECT_EQ(file.document_begin(document), count);
    // A whole block and one token on each side.
    std::vector<std::int64_t> two(65'536 + 2);
    file.read(file.seek(65'535), two);
    EXPECT_EQ(two.front(), token(65'535, vocabulary).id);
    EXPECT_EQ(two.back(), token(131'072, vocabulary).id);
  }
}

TEST(TokenFile, DetectsDamageAnywhere) {
  const testing::TemporaryDirectory folder;
  const auto path = folder.path() / "text.tokens";
  const TokenFileKey key = write_tokens(path, 1000);
  std::ifstream in(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  const auto error_of = [&](const std::string& bytes, const TokenFileKey& expected) {
    std::ofstream(path, std::ios::binary) << bytes;
    return message_of<DataError>([&] { TokenFile(path, expected); });
  };
  const std::string refused = path.string() + ": is corrupt; delete it";
  for (std::size_t at = 0; at < good.size(); at += at < 140 ? 3 : 49'999) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_EQ(error_of(damaged, key), refused) << at;
  }
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{71}, std::size_t{127}, std::size_t{128}, good.size() - 1})
    EXPECT_EQ(error_of(good.substr(0, size), key), refused);
  EXPECT_EQ(error_of(good + "x", key), refused);
  TokenFileKey other = key;
  other.text = 3;
  EXPECT_EQ(error_of(good, other), refused);
  EXPECT_EQ(error_of(good, key), "");
}

TEST(TokenFile, RejectsIdsOutsideVocabulary) {
  const testing::TemporaryDirectory folder;
  const auto path = folder.path() / "text.tokens";
  const TokenFileKey key = {.text = 1, .vocabulary = 300};
  {
    TokenFileWriter writer(path, key);
    writer.add({299, 1});
    writer.add({300, 1});
    writer.finish();
  }
  const TokenFile file(path, key);
  std::vector<std::int64_t> ids(1);
  file.read({}, ids);
  EXPECT_EQ(ids[0], 299);
  ids.resize(2);
  EXPECT_EQ(
      message_of<DataError>([&] { file.read({}, ids); }),
      path.string() + ": is corrupt; delete it: token 1 is 300, but the vocabulary has 300 ids");
}

TEST(TokenFile, UnfinishedWriterLeavesNoFile) {
  const testing::TemporaryDirectory folder;
  {
    TokenFileWriter writer(folder.path() / "text.tokens", {.file_bytes = 3, .vocabulary = 300});
    writer.add({1, 2});
    EXPECT_THAT(message_of<DataError>([&] {
                  writer.add({1, 65'536});
                }),
                HasSubstr("65536 bytes before byte 65538 of the text"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THAT(message_of<Failure>([&] { TokenFileWriter(folder.path() / "no" / "t", {}); }),
              HasSubstr("cannot be written: No such file"));
}

}  // namespace
}  // namespace longspan::token_file_test
