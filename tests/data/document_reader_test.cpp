#include "framework/data/corpus/document_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/corpus/document_form.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/options/options.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"
#include "tests/data/packed_text.h"
#include "tests/data/subword_text.h"
#include "tests/data/temporary_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::document_reader_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Texts = std::vector<std::string>;

// A file with a given name in a temporary folder.
class NamedFile {
 public:
  NamedFile(const std::string& name, std::string_view content)
      : path_((folder_.path() / name).string()) {
    std::ofstream(path_, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  const std::string& path() const { return path_; }
  std::shared_ptr<const InputFile> open() const { return std::make_shared<const InputFile>(path_); }

 private:
  testing::TemporaryDirectory folder_;
  std::string path_;
};

Texts documents_of(DocumentReader& reader) {
  Texts texts;
  for (Document document; reader.next(document);) {
    reader.extract_text(document);
    if (document.is_continuation)
      texts.back() += document.text;
    else
      texts.push_back(document.text);
  }
  return texts;
}

// Returns the documents. Checks every buffer size, and resuming after every document.
Texts documents_of(const NamedFile& file, const DocumentFormat& form) {
  DocumentReader all(file.open(), form);
  const Texts texts = documents_of(all);
  for (const std::size_t block : {1, 2, 3, 5, 8, 13, 64}) {
    DocumentReader reader(file.open(), form, {.block = block});
    EXPECT_EQ(documents_of(reader), texts) << block;
    EXPECT_EQ(reader.num_skipped(), all.num_skipped());
  }
  for (std::size_t first = 1; first <= texts.size(); ++first) {
    DocumentReader before(file.open(), form, {.block = 4});
    Document document;
    for (std::size_t i = 0; i < first; ++i) EXPECT_TRUE(before.next(document));
    DocumentReader after(file.open(), form);
    after.skip_to(before.place());
    EXPECT_EQ(documents_of(after),
              Texts(texts.begin() + static_cast<std::ptrdiff_t>(first), texts.end()));
  }
  return texts;
}

constexpr DocumentFormat lines = {.boundary = DocumentBoundary::line};
constexpr DocumentFormat paragraphs = {.boundary = DocumentBoundary::paragraph};
constexpr DocumentFormat whole = {.boundary = DocumentBoundary::file};

TEST(DocumentReader, SplitsTextAtDocumentBoundaries) {
  const std::string text = "\n \none\r\ntwo é\n\n \t\n\nthree\n\nfour";
  const std::vector<std::pair<DocumentFormat, Texts>> cases = {
      {lines, {" ", "one", "two é", " \t", "three", "four"}},
      {paragraphs, {"one\r\ntwo é", "three", "four"}},
      {whole, {text}},
      {{}, {text}}};
  for (const auto& [form, expected] : cases)
    for (const std::string& content : {text, gzip_of(text), zstd_of(text)})
      EXPECT_EQ(documents_of(NamedFile("a.txt", content), form), expected);
  EXPECT_EQ(documents_of(NamedFile("a.txt", "\n\n\n"), paragraphs), Texts());
  EXPECT_EQ(documents_of(NamedFile("a.txt", "a\r\n\r\nb\r\n"), paragraphs), (Texts{"a", "b"}));
}

TEST(DocumentReader, CountsSkippedEmptyDocuments) {
  const NamedFile file("a.txt", "a\n\n\r\nb\n\n");
  DocumentReader reader(file.open(), lines);
  EXPECT_EQ(documents_of(reader), (Texts{"a", "b"}));
  EXPECT_EQ(reader.num_skipped(), 3);
}

TEST(DocumentReader, ReadsEachJsonlLineAsDocument) {
  const std::string text =
      "{\"id\": 1, \"text\": \"one\\ntwo \\u00e9\\ud83d\\ude00\\u0000\"}\r\n\n"
      "{\"other\": {\"text\": [\"no\", {\"text\": 3}]}, \"text\": \"two\"}\n"
      "  {\"text\":\"\"}\n{\"text\":\"é\",\"x\":[1,-2.5e3,true,null]}";
  const Texts expected = {std::string("one\ntwo é😀\0", 15), "two", "", "é"};
  for (const auto& [name, content] : {std::pair("a.jsonl", text),
                                      std::pair("a.jsonl.gz", gzip_of(text)),
                                      std::pair("a.jsonl.zst", zstd_of(text)),
                                      std::pair("b.jsonl", gzip_of(text))})
    for (const DocumentFormat& form : {DocumentFormat(), paragraphs, whole})
      EXPECT_EQ(documents_of(NamedFile(name, content), form), expected) << name;
  EXPECT_EQ(
      documents_of(NamedFile("a.jsonl", "{\"text\": \"a\", \"body\": \"b\"}\n"), {.field = "body"}),
      Texts{"b"});
}

TEST(DocumentReader, ReturnsWholeFileInBoundedParts) {
  std::string text = "a\n" + std::string(40'000, 'x') + "é" + std::string(100'000, ' ');
  text += subword_text(30'000, 2);
  ASSERT_GT(text.size(), 600'000);
  for (const std::string& content : {text, gzip_of(text)}) {
    const NamedFile file("a.txt", content);
    for (const DocumentParts parts : {DocumentParts::lines, DocumentParts::bytes}) {
      DocumentReader reader(file.open(), whole, {.parts = parts, .part = 40'000, .block = 7'001});
      std::int64_t count = 0;
      std::string joined;
      for (Document document; reader.next(document); ++count) {
        EXPECT_EQ(document.is_continuation, count > 0);
        EXPECT_EQ(document.byte, std::ssize(joined));
        EXPECT_EQ(document.line, 1 + std::ranges::count(joined, '\n'));
        EXPECT_LE(document.text.size(), 40'000);
        joined += document.text;
        EXPECT_EQ(reader.place().byte, std::ssize(joined));
      }
      EXPECT_GT(count, 10);
      EXPECT_EQ(joined, text);
    }
  }
}

// Returns the parts of a whole file, which end before spaces.
Texts parts_of(const NamedFile& file, std::optional<std::size_t> most) {
  const DocumentReaderOptions reading = {.parts = DocumentParts::places,
                                         .part = 40'000,
                                         .cut_position = blank_to_cut_at,
                                         .most = most,
                                         .block = 7'001};
  DocumentReader reader(file.open(), whole, reading);
  Texts parts;
  for (Document document; reader.next(document);) parts.push_back(document.text);
  return parts;
}

std::string joined(const Texts& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

TEST(DocumentReader, SplitsPartsBeforeSpaces) {
  std::string text;
  while (text.size() < 900'000) text += "caf\u00e9 \u4e2d\u6587, ";
  for (const std::string& content : {text, gzip_of(text)}) {
    const Texts parts = parts_of(NamedFile("a.txt", content), std::nullopt);
    EXPECT_EQ(joined(parts), text);
    EXPECT_GT(parts.size(), 20U);
    for (std::size_t i = 1; i < parts.size(); ++i) EXPECT_EQ(parts[i].front(), ' ');
  }
}

TEST(DocumentReader, LimitsPartSizeWithoutSpaces) {
  std::string text = "x";
  while (text.size() < 600'000) text += "\u00e9";
  const NamedFile file("a.txt", text);
  EXPECT_EQ(parts_of(file, std::nullopt).size(), 1U);
  const Texts parts = parts_of(file, 100'000);
  EXPECT_EQ(joined(parts), text);
  EXPECT_EQ(parts.size(), 7U);
  for (const std::string& part : parts) {
    EXPECT_EQ(valid_utf8_bytes(part), part.size());
    EXPECT_LE(part.size(), 100'000U);
  }
}

TEST(DocumentReader, SplitsBeforeLastSpaceWithoutChunkBoundary) {
  std::string text;
  while (text.size() < 600'000) text += "\u4e2d\u6587. ";
  const NamedFile file("a.txt", text);
  DocumentReader reader(file.open(),
                        whole,
                        {.parts = DocumentParts::places,
                         .part = 40'000,
                         .cut_position = [](auto, auto) { return std::string_view::npos; },
                         .most = 100'000,
                         .block = 7'001});
  Texts parts;
  for (Document document; reader.next(document);) parts.push_back(document.text);
  EXPECT_EQ(joined(parts), text);
  EXPECT_EQ(parts.size(), 7U);
  for (std::size_t i = 1; i < parts.size(); ++i) EXPECT_EQ(parts[i].front(), ' ');
}

// Returns the error of reading all documents, without the path.
std::string error_of(const std::string& name,
                     const std::string& content,
                     const DocumentFormat& form,
                     const DocumentReaderOptions& reading = {}) {
  const NamedFile file(name, content);
  const std::string message = message_of<DataError>([&] {
    DocumentReader reader(file.open(), form, reading);
    documents_of(reader);
  });
  return message.starts_with(file.path()) ? message.substr(file.path().size()) : message;
}

TEST(DocumentReader, ReportsErrorsWithLineOrByte) {
  const std::string good = "{\"text\": \"a\"}\n";
  for (const auto& [line, expected] : std::vector<std::pair<std::string, std::string>>{
           {"{\"text\": 3}", ":2: field \"text\": expected a string, found a number"},
           {"{\"text\": null}", ":2: field \"text\": expected a string, found null"},
           {"{\"text\": [\"a\"]}", ":2: field \"text\": expected a string, found a list"},
           {"{\"text\": {}}", ":2: field \"text\": expected a string, found an object"},
           {"{\"Text\": \"a\"}", ":2: expected the field \"text\", found "},
           {"[{\"text\": \"a\"}]", ":2: expected an object, found a list"},
           {"\"text\"", ":2: expected an object, found a string"},
           {"{\"text\": \"a\", \"text\": \"b\"}", ":2: duplicate field \"text\""},
           {"{\"text\": \"a\"} x", ":2: invalid JSON at byte 14 of the line"},
           {"{\"text\": \"a\"", ":2: invalid JSON at byte "},
           {"{\"text\": \"\\ud800\"}", ":2: invalid JSON at byte "},
           {"{\"text\": \"a\xFF\"}", ":2: invalid JSON at byte "},
           {std::string("{\"text\": \"\0\"}", 12), ":2: invalid JSON at byte "},
           {std::string(100'000, '[') + "1", ":2: expected an object, found a list"},
           {"{\"a\":" + std::string(1'000'000, '['), ":2: invalid JSON at byte 1000005"},
           {"{" + std::string(1'000'000, '9'), ":2: invalid JSON at byte "}}) {
    const std::string message = error_of("a.jsonl", good + line + "\n" + good, {});
    EXPECT_TRUE(message.starts_with(expected)) << message.substr(0, 300);
    EXPECT_LT(message.size(), 400);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
  EXPECT_THAT(error_of("a.jsonl.gz", gzip_of(good + "x"), {}), HasSubstr(":2: invalid JSON"));
  EXPECT_THAT(error_of("a.jsonl.gz", gzip_of(good).substr(0, 20), {}),
              HasSubstr(": byte 20: unexpected end of the compressed data"));
  EXPECT_THAT(error_of("a.txt", "abc\xFF", whole, {.parts = DocumentParts::lines}),
              HasSubstr(": byte 3: expected UTF-8, found bytes ff"));
}

TEST(DocumentReader, RejectsOverlongDocumentsBeforeReadingThem) {
  const std::string one = "a\n" + std::string(101, 'x') + "\n";
  const DocumentReaderOptions reading = {.longest = 100, .block = 16};
  EXPECT_EQ(error_of("a.txt", one, lines, reading),
            ": a line of more than 100 bytes begins at byte 2; split it into shorter documents");
  EXPECT_EQ(error_of("a.txt", "a\n\nb\n" + one, paragraphs, reading),
            ": a paragraph of more than 100 bytes begins at byte 3; split it into shorter "
            "documents");
  EXPECT_THAT(error_of("a.txt", one, whole, reading),
              HasSubstr("a document of more than 100 bytes"));
  EXPECT_EQ(error_of("a.txt", std::string(99, 'x') + "\nabc", lines, reading), "");
  // Compressed input is rejected before it is fully decompressed.
  const std::string much = gzip_of(std::string(10'000'000, 'x'));
  EXPECT_THAT(error_of("a.jsonl.gz", much, {}, {.longest = 1000, .block = 1000}),
              HasSubstr("a line of more than 1000 bytes"));
}

TEST(EndOfTextId, ResolvesTokenNamesAndIds) {
  EXPECT_EQ(end_of_text_id({}, Tokenizer()), std::nullopt);
  EXPECT_EQ(end_of_text_id({.end_of_text = "10"}, Tokenizer()), 10);
  EXPECT_EQ(
      message_of<ConfigurationError>([] { end_of_text_id({.end_of_text = "256"}, Tokenizer()); }),
      "data.documents.end_token: expected an id from 0 to 255 (data.tokenizer.type: byte does not "
      "support token names), found \"256\"");
  const Tokenizer subwords = Tokenizer::subwords(subword_model());
  EXPECT_EQ(end_of_text_id({.end_of_text = "</s>"}, subwords),
            subwords.subword_model()->id_of("</s>"));
  EXPECT_EQ(end_of_text_id({.end_of_text = "5"}, subwords), 5);
  EXPECT_THAT(
      message_of<ConfigurationError>([&] { end_of_text_id({.end_of_text = "<eod>"}, subwords); }),
      AllOf(HasSubstr("data.documents.end_token: expected an id from 0 to "),
            HasSubstr(" or the name of a token of the tokenizer, found \"<eod>\"; set it to "
                      "\"</s>\", the end token of the tokenizer")));
  EXPECT_EQ(find_end_of_text({.end_of_text = "<eod>"}, subwords), std::nullopt);
}

TEST(EndOfTextId, IgnoresTokenOfFileWithoutDocuments) {
  const auto text = NamedFile("a.txt", "text").open();
  DocumentFormat form = {.end_of_text = "256"};
  EXPECT_EQ(end_of_text_id(*text, form, Tokenizer()), std::nullopt);
  form.boundary = DocumentBoundary::line;
  EXPECT_THROW(end_of_text_id(*text, form, Tokenizer()), ConfigurationError);
}

}  // namespace
}  // namespace longspan::document_reader_test
