#include "framework/data/tokenization/token_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "framework/core/error.h"
#include "framework/data/corpus/document_reader.h"
#include "framework/data/tokenization/document_encoder.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "tests/data/packed_text.h"
#include "tests/data/subword_text.h"
#include "tests/data/temporary_file.h"
#include "tests/data/third_party_model.h"
#include "tests/support/temporary_directory.h"

namespace longspan::token_cache_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr DocumentFormat lines = {.boundary = DocumentBoundary::line};
constexpr DocumentFormat paragraphs = {.boundary = DocumentBoundary::paragraph};
constexpr DocumentFormat whole = {.boundary = DocumentBoundary::file};

// Byte-level BPE with context-dependent tokens and an end-of-text token.
Tokenizer package_tokenizer() {
  std::string vocabulary;
  int id = 0;
  for (const char* const token :
       {"<|end|>", "Ġ", "Ċ", "a", "b", "l", "o",  "t",   "i",  "r",    "m", "e",
        "n",       "k", "s", "u", "Ã", "©", "lo", "Ġlo", "ba", "balo", "ĊĊ"})
    vocabulary +=
        std::string(vocabulary.empty() ? "" : ",") + "\"" + token + "\":" + std::to_string(id++);
  return Tokenizer::from_huggingface(JsonTokenizer(
      "{\"added_tokens\":[{\"id\":0,\"content\":\"<|end|>\",\"special\":true,\"single_word\":false,"
      "\"lstrip\":false,\"rstrip\":false,\"normalized\":false}],\"normalizer\":null,"
      "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
      "\"use_regex\":true},\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
      "\"model\":{\"type\":\"BPE\",\"vocab\":{" +
          vocabulary + "},\"merges\":[\"l o\",\"Ġ lo\",\"b a\",\"ba lo\",\"Ċ Ċ\"]}}",
      "test"));
}

std::vector<Tokenizer> every_tokenizer() {
  std::vector<char32_t> letters;
  for (char32_t letter = 0; letter < 0x250; ++letter) letters.push_back(letter);
  return {Tokenizer(),
          Tokenizer::characters(letters, false),
          Tokenizer::subwords(subword_model()),
          package_tokenizer()};
}

struct Text {
  testing::TemporaryDirectory folder;
  std::string path;

  Text(const std::string& name, std::string_view content) : path((folder.path() / name).string()) {
    write(content);
  }
  void write(std::string_view content) const {
    std::ofstream(path, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  fs::path cache() const { return folder.path() / "cache"; }
  std::vector<std::string> cached() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(cache()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
};

using Ids = std::vector<std::int64_t>;

std::vector<Ids> documents_in(const TokenFile& file) {
  std::vector<Ids> documents;
  EXPECT_EQ(file.document_begin(0), 0);
  for (std::int64_t i = 0; i < file.documents(); ++i) {
    const std::int64_t begin = file.document_begin(i);
    Ids& ids = documents.emplace_back(static_cast<std::size_t>(file.document_begin(i + 1) - begin));
    file.read(file.seek(begin), ids);
  }
  return documents;
}

// Encodes each document separately.
std::vector<Ids> encoded(const std::vector<std::string>& documents,
                         const Tokenizer& tokenizer,
                         std::optional<std::int64_t> end = std::nullopt) {
  std::vector<Ids> result;
  for (const std::string& document : documents) {
    result.push_back(tokenizer.encode(document, "text"));
    if (end) result.back().push_back(*end);
  }
  return result;
}

std::int64_t bytes_of(const std::vector<std::string>& documents) {
  std::int64_t bytes = 0;
  for (const std::string& document : documents) bytes += std::ssize(document);
  return bytes;
}

TEST(TokenizeFile, EncodesEachDocumentSeparately) {
  const std::vector<std::string> documents = {
      "balo tir\n  lo", "\u00e9t", " lo", "ba\n\n lo  ", subword_text(40, 3), "a"};
  std::string json;
  for (const std::string& document : documents) {
    std::string escaped;
    for (const char letter : document)
      escaped += letter == '\n' ? std::string("\\n") : std::string(1, letter);
    json += "{\"text\": \"" + escaped + "\"}\n{\"text\": \"\"}\n";
  }
  for (const Tokenizer& tokenizer : every_tokenizer())
    for (const auto& [name, content] : {std::pair("a.jsonl", json),
                                        std::pair("a.jsonl.gz", gzip_of(json)),
                                        std::pair("a.jsonl.zst", zstd_of(json))}) {
      const Text text(name, content);
      for (const std::optional<std::string>& end :
           {std::optional<std::string>(), std::optional<std::string>("3")}) {
        const DocumentFormat form = {.end_of_text = end};
        const TokenizedFile made = tokenize_file(text.path, form, tokenizer, text.cache());
        EXPECT_FALSE(made.existed);
        EXPECT_EQ(documents_in(*made.tokens),
                  encoded(documents, tokenizer, end_of_text_id(form, tokenizer)));
        EXPECT_EQ(made.tokens->bytes(), bytes_of(documents));
        EXPECT_EQ(made.tokens->end().num_skipped, std::ssize(documents));
      }
    }
}

TEST(TokenizeFile, SplitsTextsIntoDocuments) {
  const std::string content = "balo tir\n lo\n\n\nba\n\n\n" + subword_text(30, 3);
  const std::string last = subword_text(30, 3);
  std::vector<std::string> by_line;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = content.find('\n', at);
    if (end > at) by_line.push_back(content.substr(at, end - at));
    at = end + 1;
  }
  const std::vector<std::pair<DocumentFormat, std::vector<std::string>>> cases = {
      {lines, by_line},
      {paragraphs, {"balo tir\n lo", "ba", last.substr(0, last.size() - 1)}},
      {whole, {content}},
      {{}, {content}}};
  for (const Tokenizer& tokenizer : every_tokenizer())
    for (const auto& [form, documents] : cases) {
      const Text text("a.txt.gz", gzip_of(content));
      const auto made = tokenize_file(text.path, form, tokenizer, text.cache());
      EXPECT_EQ(documents_in(*made.tokens), encoded(documents, tokenizer));
      EXPECT_EQ(made.tokens->bytes(), bytes_of(documents));
      EXPECT_EQ(made.tokens->end().num_skipped, form.boundary == DocumentBoundary::line ? 4 : 0);
    }
}

TEST(TokenizeFile, ThirdPartyModelsEncodeWholeText) {
  const std::string content = "\n" + subword_text(9000, 3) + "\n\n  balo\n";
  for (const std::string& bytes : {llama_model(), foreign_model("true", "2")}) {
    const Text text("a.txt", content);
    const auto made = tokenize_file(
        text.path, {}, Tokenizer::subwords(SentencePieceModel(bytes, "model")), text.cache());
    const std::vector<Ids> expected = {ids_of_library(bytes, content)};
    EXPECT_EQ(documents_in(*made.tokens), expected);
    EXPECT_EQ(made.tokens->bytes(), std::ssize(content));
  }
}

TEST(TokenizeFile, EncodesTextWithoutChunkBoundariesInBoundedParts) {
  std::string content;
  while (content.size() < 3 << 20) content += "中文";
  const Tokenizer tokenizer = Tokenizer::subwords(SentencePieceModel(llama_model(), "model"));
  const Text text("a.txt", content);
  std::int64_t reports = 0;
  const auto made = tokenize_file(text.path,
                                  {},
                                  tokenizer,
                                  text.cache(),
                                  [&reports](const ScanProgress&) { ++reports; },
                                  {.part = 1 << 20, .batch = 1 << 20});
  EXPECT_EQ(made.tokens->bytes(), std::ssize(content));
  EXPECT_GE(reports, 3) << "one for each part of the text";
  const std::vector<Ids> found = documents_in(*made.tokens);
  ASSERT_EQ(found.size(), 1U);
  const std::string beginning = content.substr(0, 900);
  const Ids expected = ids_of_library(llama_model(), beginning);
  EXPECT_TRUE(std::ranges::equal(expected, std::span(found[0]).first(expected.size())));
}

TEST(TokenizeFile, TokenBytesMatchDecodedText) {
  const std::string content = subword_text(30, 3) + "\u00e9\n";
  for (const Tokenizer& tokenizer : every_tokenizer()) {
    const Text text("a.txt", content);
    const DocumentFormat form = {.boundary = DocumentBoundary::file, .end_of_text = "3"};
    const auto made = tokenize_file(text.path, form, tokenizer, text.cache());
    std::vector<SubwordToken> tokens(static_cast<std::size_t>(made.tokens->tokens()));
    made.tokens->read_tokens(0, tokens);
    EXPECT_EQ(tokens.back().bytes, 0) << "the end is no text";
    std::size_t at = 0;
    for (const SubwordToken& token : tokens) {
      if (&token == &tokens.back()) break;
      EXPECT_EQ(tokenizer.decode(std::span(&token.id, 1)),
                content.substr(at, static_cast<std::size_t>(token.bytes)));
      at += static_cast<std::size_t>(token.bytes);
    }
    EXPECT_EQ(at, content.size());
  }
}

TEST(TokenizeFile, DoesNotDependOnPartAndBatchSize) {
  const std::string content =
      subword_text(900, 3) + std::string(100'000, 'k') + "\n\n" + subword_text(900, 4);
  for (const Tokenizer& tokenizer : every_tokenizer())
    for (const DocumentFormat& form : {lines, paragraphs, whole, DocumentFormat()}) {
      const Text text("a.txt", content);
      const auto all = tokenize_file(text.path, form, tokenizer, text.cache());
      const auto parts = tokenize_file(text.path,
                                       form,
                                       tokenizer,
                                       text.folder.path() / "parts",
                                       {},
                                       {.part = 60'000, .batch = 30'000});
      EXPECT_EQ(all.path.filename(), parts.path.filename());
      EXPECT_EQ(documents_in(*parts.tokens), documents_in(*all.tokens));
      EXPECT_EQ(parts.tokens->bytes(), all.tokens->bytes());
      EXPECT_EQ(parts.tokens->fingerprint(), all.tokens->fingerprint());
      EXPECT_EQ(text.cached().size(), 1);
    }
}

TEST(TokenizeFile, ResumesFromFinishedParts) {
  const std::string json = [] {
    std::string all;
    for (int i = 0; i < 5000; ++i)
      all += "{\"text\": \"balo " + std::to_string(i % 3 == 0 ? 0 : i) + "\"}\n";
    return all;
  }();
  const Tokenizer tokenizer;
  for (const std::string& content : {json, gzip_of(json)}) {
    const Text text("a.jsonl", content);
    const auto all = tokenize_file(text.path, {}, tokenizer, text.folder.path() / "all");
    const TokenizationOptions making = {.part = 20'000, .batch = 2'000};
    std::int64_t kept = 0;
    int tries = 0;
    TokenizedFile made;
    while (true) {
      int left = 14;  // reports: ten batches per part, one hash, one per joined part
      try {
        made = tokenize_file(
            text.path,
            {},
            tokenizer,
            text.cache(),
            [&left](const ScanProgress&) {
              if (--left == 0) throw DataError("stopped");
            },
            making);
        break;
      } catch (const DataError& error) {
        ASSERT_STREQ(error.what(), "stopped");
        ASSERT_LT(++tries, 20);
        // Only finished parts remain.
        for (const std::string& name : text.cached()) EXPECT_THAT(name, HasSubstr(".part-"));
      }
      EXPECT_GE(std::ssize(text.cached()), tries);
    }
    kept = made.cached_bytes;
    EXPECT_GT(tries, 3);
    EXPECT_GT(kept, 50'000);
    EXPECT_EQ(made.tokens->fingerprint(), all.tokens->fingerprint());
    EXPECT_THAT(text.cached(), ElementsAre(made.path.filename().string()));
    EXPECT_TRUE(tokenize_file(text.path, {}, tokenizer, text.cache()).existed);
  }
}

TEST(TokenizeFile, RewritesDamagedOrMisalignedParts) {
  const std::string content = subword_text(1500, 3);
  const Text text("a.txt", content);
  const auto all = tokenize_file(text.path, lines, {}, text.folder.path() / "all");
  const auto stop_after = [&](std::int64_t part, int reports) {
    EXPECT_EQ(message_of<DataError>([&] {
                tokenize_file(text.path,
                              lines,
                              {},
                              text.cache(),
                              [&](const ScanProgress&) {
                                if (--reports == 0) throw DataError("stopped");
                              },
                              {.part = part, .batch = 5'000});
              }),
              "stopped");
  };
  stop_after(10'000, 12);
  const auto parts = text.cached();
  ASSERT_GT(parts.size(), 3);
  fs::resize_file(text.cache() / parts[1], 300);
  stop_after(14'000, 5);  // the third part does not follow the new second part
  EXPECT_EQ(text.cached(), parts);
  const auto made =
      tokenize_file(text.path, lines, {}, text.cache(), {}, {.part = 10'000, .batch = 5'000});
  EXPECT_GT(made.cached_bytes, 0);
  EXPECT_EQ(made.tokens->fingerprint(), all.tokens->fingerprint());
}

TEST(TokenizeFile, SupportsConcurrentWriters) {
  const Text text("a.txt", subword_text(2000, 3));
  const auto all = tokenize_file(text.path, lines, {}, text.folder.path() / "all");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const auto made =
          tokenize_file(text.path, lines, {}, text.cache(), {}, {.part = 20'000, .batch = 10'000});
      EXPECT_EQ(made.tokens->fingerprint(), all.tokens->fingerprint());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(text.cached().size(), 1);
}

TEST(TokenizeFile, WritesOneFilePerDocumentFormat) {
  const Text text("a.txt", "balo\n\nlo\n");
  const DocumentFormat ended = {.boundary = DocumentBoundary::line, .end_of_text = "3"};
  std::size_t count = 0;
  for (const DocumentFormat& form : {lines, paragraphs, whole, DocumentFormat(), ended}) {
    EXPECT_FALSE(tokenize_file(text.path, form, {}, text.cache()).existed);
    EXPECT_TRUE(tokenize_file(text.path, form, {}, text.cache()).existed);
    EXPECT_EQ(text.cached().size(), ++count);
  }
  // The text field applies only to JSON lines.
  const DocumentFormat field = {.boundary = DocumentBoundary::line, .field = "body"};
  EXPECT_TRUE(tokenize_file(text.path, field, {}, text.cache()).existed);
  text.write("balo\n\nlu\n");
  EXPECT_FALSE(tokenize_file(text.path, lines, {}, text.cache()).existed);
}

TEST(TokenizeFile, ReportsErrorPositionAndLeavesNoFile) {
  const auto error_of = [](const std::string& name,
                           const std::string& content,
                           const DocumentFormat& form,
                           const Tokenizer& tokenizer) {
    const Text text(name, content);
    const std::string message =
        message_of<DataError>([&] { tokenize_file(text.path, form, tokenizer, text.cache()); });
    EXPECT_TRUE(!fs::exists(text.cache()) || text.cached().empty());
    return message.starts_with(text.path) ? message.substr(text.path.size()) : message;
  };
  const Tokenizer characters = Tokenizer::characters(std::vector<char32_t>{'a', 'b'}, false);
  EXPECT_THAT(error_of("a.txt", "a\nb\nc\n", lines, characters),
              HasSubstr(": byte 4: character U+0063 'c' is not in the vocabulary"));
  EXPECT_THAT(error_of("a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"bc\"}\n", {}, characters),
              HasSubstr(":2: byte 1: character U+0063 'c' is not in the vocabulary"));
  for (const Tokenizer& tokenizer : {Tokenizer::subwords(subword_model()), package_tokenizer()}) {
    EXPECT_THAT(error_of("a.txt", "ba\nlo\xFF\n", lines, tokenizer),
                HasSubstr(": byte 5: expected UTF-8, found bytes ff"));
    EXPECT_THAT(error_of("a.txt.gz", gzip_of("ba\nlo\xFF\n"), whole, tokenizer),
                HasSubstr("byte 5: expected UTF-8, found bytes ff"));
  }
  EXPECT_EQ(error_of("a.txt", "\n\n\n", lines, {}),
            ": expected tokens, found none after tokenization");
  EXPECT_THAT(error_of("a.jsonl.zst", zstd_of("{\"text\":\"a\"}\n").substr(0, 18), {}, {}),
              HasSubstr("unexpected end of the compressed data"));
}

TEST(TokenizeFile, EncodesDocumentsLongerThanBatch) {
  // Longer than TokenizationOptions::batch.
  const std::string content = std::string(9'000'000, 'a') + "\nab\n";
  const Text text("a.txt", content);
  const auto made = tokenize_file(text.path, lines, {}, text.cache());
  EXPECT_EQ(documents_in(*made.tokens), encoded({std::string(9'000'000, 'a'), "ab"}, Tokenizer()));
}

TEST(NeedsTokenFile, IsFalseOnlyForDirectlyReadableText) {
  const Text plain("a.txt", "abc");
  const Text packed("a.txt.gz", gzip_of("abc"));
  const Text json("a.jsonl", "{}");
  EXPECT_FALSE(needs_token_file(InputFile(plain.path), {}, {}));
  EXPECT_TRUE(needs_token_file(InputFile(plain.path), lines, {}));
  EXPECT_TRUE(needs_token_file(InputFile(plain.path), {}, package_tokenizer()));
  EXPECT_TRUE(needs_token_file(InputFile(packed.path), {}, {}));
  EXPECT_TRUE(needs_token_file(InputFile(json.path), {}, {}));
}

}  // namespace
}  // namespace longspan::token_cache_test
