#include "framework/data/corpus/text_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "framework/core/error.h"
#include "framework/data/corpus/document_form.h"
#include "framework/data/corpus/document_reader.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/corpus/path_pattern.h"
#include "framework/data/corpus/text_files.h"
#include "framework/data/examples/label_examples.h"
#include "framework/data/examples/parallel_examples.h"
#include "framework/data/examples/tagged_words.h"
#include "tests/data/example_files.h"
#include "tests/data/packed_text.h"
#include "tests/data/temporary_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::text_input_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string mark = "\xEF\xBB\xBF";

// Returns the text plain and compressed, with and without a byte order mark.
std::vector<std::string> stored(const std::string& text) {
  return {text,
          mark + text,
          gzip_of(text),
          gzip_of(mark + text),
          zstd_of(text),
          zstd_of(mark + text),
          gzip_of("") + gzip_of(text)};
}

class Folder {
 public:
  std::string write(const std::string& name, std::string_view content) const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path.string();
  }
  std::string path() const { return folder_.path().string(); }

 private:
  testing::TemporaryDirectory folder_;
};

std::string whole(const InputFile& file) { return file.text(1 << 20); }

TEST(TextInput, ReadsPlainAndCompressedTextEqually) {
  for (const std::string& content : stored("first\nsecond\n")) {
    const TemporaryFile file(content);
    EXPECT_EQ(whole(*open_plain_text(file.path())), "first\nsecond\n");
    EXPECT_EQ(open_plain_text(file.path())->path(), file.path());
    EXPECT_THAT(read_lines(file.path(), Communicator()), ElementsAre("first", "second"));
  }
  for (const std::string& content : {mark, gzip_of(""), zstd_of(mark)}) {
    const TemporaryFile file(content);
    EXPECT_THAT(message_of<DataError>([&] { open_plain_text(file.path()); }),
                HasSubstr(file.path() + ": is empty"));
  }
}

TEST(TextInput, ReportsOtherFormatsWithConversionCommand) {
  using namespace std::string_literals;
  for (const auto& [beginning, name, command] : std::vector<std::array<std::string, 3>>{
           {"BZh91AY&SY\x12"s, "bzip2", "bzip2 -dc"},
           {"\xFD"
            "7zXZ\0\0\4"s,
            "xz",
            "xz -dc"},
           {"PK\3\4\x14\0"s, "zip", "unzip"},
           {"\x04\x22\x4D\x18\x64"s, "lz4", "lz4 -dc"},
           {"\xFF\xFEh\0i\0"s, "UTF-16", "iconv -f UTF-16 -t UTF-8"},
           {"\xFE\xFF\0h\0i"s, "UTF-16", "iconv -f UTF-16 -t UTF-8"},
           {"\xFF\xFE\0\0h\0\0\0"s, "UTF-32", "iconv -f UTF-32 -t UTF-8"},
           {"\xFF\xFE\x2D\x4E\x87\x65\x3D\xD8\0\xDE"s, "UTF-16", "iconv -f UTF-16 -t UTF-8"},
           {"\x5D\0\0\x80\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0"s, "lzma", "xz -dc"},
           {"\x1F\x9D\x90h"s, "compress", "gzip -dc"},
           {std::string(257, 'a') + "ustar  \0"s, "tar", "tar -xf"},
           {std::string(257, 'a') + "ustar\0"s, "tar", "tar -xf"}}) {
    for (const std::string& content : {beginning, gzip_of(beginning), zstd_of(beginning)}) {
      const TemporaryFile file(content);
      const std::string error = message_of<DataError>([&] { open_plain_text(file.path()); });
      EXPECT_THAT(error, HasSubstr(file.path()));
      EXPECT_THAT(error, HasSubstr("expected text in UTF-8, found"));
      EXPECT_THAT(error, HasSubstr(name));
      EXPECT_THAT(error, HasSubstr(command));
      EXPECT_EQ(message_of<DataError>([&] { DocumentReader(open_text(file.path()), {}); }), error);
    }
  }
  // Text may begin with a part of a signature.
  for (const std::string text : {"BZh, he said", "PK", "7z", "ustar"}) {
    const TemporaryFile file(text);
    EXPECT_EQ(whole(*open_plain_text(file.path())), text);
  }
}

TEST(TextInput, ReadsDecompressedCopiesAsPlainText) {
  const Folder folder;
  for (const auto& [name, content] : {std::pair("a.jsonl.gz", gzip_of("{\"a\": 1}\n")),
                                      std::pair("a.jsonl.zst", zstd_of("{\"a\": 1}\n"))}) {
    const auto copy = open_plain_text(folder.write(name, content));
    EXPECT_TRUE(is_json_lines(*copy, {})) << name;
    EXPECT_EQ(plain_text_of(InputFile(copy->path()))->text(100), "{\"a\": 1}\n");
  }
}

TEST(TextInput, AcceptsBinaryDataThatResemblesOtherFormats) {
  using namespace std::string_literals;
  for (const std::string& bytes : {"\x5D\0\0\x80\0\0\0\1\1\1\1\1\1\1"s,
                                   "\x5D\0\0\x01"s,
                                   "\x1F\x9D\x80\1\1"s,
                                   "\x1F\x9D"s,
                                   "\xFF\xFE\1\0\2\0"s,
                                   "\xFE\xFF\xD8\0\0a"s,
                                   std::string(255, 'a') + "mustard and more"}) {
    const TemporaryFile file(bytes);
    EXPECT_EQ(message_of<DataError>([&] { open_plain_text(file.path()); }), "")
        << ::testing::PrintToString(bytes);
  }
}

TEST(TextInput, CorpusDoesNotDependOnStorage) {
  const Folder folder;
  DataOptions options;
  for (const std::string& content : stored("first\nsecond\n")) {
    const std::string path = folder.write("text", content);
    const Corpus corpus = open_corpus(path, options, {}, folder.path(), Communicator());
    std::vector<std::int64_t> ids(static_cast<std::size_t>(corpus.tokens()));
    corpus.read(corpus.seek(0), ids);
    EXPECT_EQ(std::string(ids.begin(), ids.end()), "first\nsecond\n");
    options.tokenizer = TokenizerKind::characters;
    options.train = path;
    EXPECT_EQ(make_tokenizer(options),
              Tokenizer::characters(std::u32string(U"\nfirstecond"), false));
    options.tokenizer = TokenizerKind::bytes;
  }
  // Files of one pattern may be stored in different ways.
  const std::string one = folder.write("1.txt", mark + "ab");
  folder.write("2.txt", gzip_of(mark + "cd"));
  const Corpus both =
      open_corpus(folder.path() + "/?.txt", options, {}, folder.path(), Communicator());
  EXPECT_EQ(both.tokens(), 4);
}

TEST(TextInput, ReadsLabelsPairsLinksAndTags) {
  const Communicator all;
  for (const std::string& content : stored("good\tfine\nbad\tawful\ngood\tnice\n")) {
    const TemporaryFile file(content);
    const LabelSet labels = learn_labels(file.path(), all).labels;
    EXPECT_THAT(labels.names(), ElementsAre("bad", "good"));
    const auto examples = open_labels(file.path(), labels, {}, all);
    EXPECT_EQ(examples->lengths(0).target, 4);
    const std::vector<std::int64_t> rows = {1};
    EXPECT_EQ(testing::text_of(testing::row(
                  examples->read({.examples = rows, .columns = {0, 5}}), "tokens", 0, 5)),
              "awful");
  }
  const auto targets = stored("x\nyz\n");
  const auto links = stored("0-0\n1-1\n");
  const auto sources = stored("abc\nde\n");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const TemporaryFile source(sources[i]);
    const TemporaryFile target(targets[(i + 1) % targets.size()]);
    const TemporaryFile linked(links[(i + 2) % links.size()]);
    const auto pairs =
        open_parallel_corpus(source.path(), target.path(), {}, {}, all, {}, linked.path());
    ASSERT_EQ(pairs->size(), 2);
    EXPECT_EQ(pairs->lengths(0), (Lengths{3, 1}));
    EXPECT_EQ(pairs->lengths(1), (Lengths{2, 2}));
  }
  for (const std::string& content :
       stored("# a comment\n1\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n")) {
    const TemporaryFile file(content);
    EXPECT_THAT(learn_tags(file.path(), TagColumns::upos, all).labels.names(), ElementsAre("VERB"));
  }
}

TEST(TextInput, RejectsJsonLinesForPairsAndLabels) {
  const Folder folder;
  const std::string json = folder.write("a.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_THAT(
      message_of<DataError>([&] { open_parallel_corpus(json, json, {}, {}, Communicator()); }),
      HasSubstr("found JSON lines"));
  EXPECT_THAT(message_of<DataError>([&] { learn_labels(json, Communicator()); }),
              HasSubstr("convert JSON lines with jq"));
}

bool is_json(const std::string& name, const std::string& content, const DocumentFormat& form = {}) {
  const Folder folder;
  return is_json_lines(*open_text(folder.write(name, content)), form);
}

TEST(JsonLines, DetectsFormatByNameAndContent) {
  const std::string lines = "{\"id\": 1, \"body\": \"a\"}\n{\"body\": \"b\"}\n";
  const DocumentFormat body = {.field = "body"};
  for (const std::string& content : stored(lines)) {
    for (const char* name : {"a.jsonl", "a.JSONL", "a.ndjson", "a.json", "a.Json"})
      EXPECT_TRUE(is_json(name, content)) << name;
    EXPECT_FALSE(is_json("a.txt", content));
    EXPECT_TRUE(is_json("a.txt", content, body));
    EXPECT_TRUE(is_json("a.json", content, {.boundary = DocumentBoundary::file, .field = "body"}));
  }
  EXPECT_TRUE(is_json("a.JSONL.GZ", gzip_of(lines)));
  // Lines longer than the inspected beginning of the file.
  const std::string text(1 << 17, 'a');
  EXPECT_TRUE(is_json("a.txt", "{\"id\": 1, \"body\": \"" + text + "\"}\n", body));
  EXPECT_TRUE(is_json("a.json", "\n{\"body\": \"a\", \"more\": \"" + text + "\"}\n", body));
  // Lines without an object, or without the field.
  EXPECT_FALSE(is_json("a.json", "{\n  \"body\": \"a\"\n}\n"));
  EXPECT_FALSE(is_json("a.json", lines, {.boundary = DocumentBoundary::file}));
  EXPECT_FALSE(is_json("a.json", "\"a text\"\n"));
  EXPECT_FALSE(is_json("a.txt", "{\"body\": 3}\n", body));
  EXPECT_FALSE(is_json("a.txt", "{body} of text\n", body));
  EXPECT_FALSE(is_json("a.txt", "[{\"body\": \"a\"}]\n"));
}

TEST(JsonLines, RejectsArrayWithConversionCommand) {
  for (const char* name : {"a.json", "a.jsonl", "A.JSON"})
    for (const std::string& content : stored("[\n  {\"text\": \"a\"}]\n"))
      EXPECT_THAT(message_of<DataError>([&] { is_json(name, content); }),
                  HasSubstr("found an array of objects; convert it with jq -c '.[]'"));
}

TEST(JsonLines, ReportsAvailableFields) {
  const std::string error = message_of<DataError>([] {
    json_field("{\"id\": 3, \"content\": \"a\", \"more\": {\"text\": \"b\"}}", "text", "here");
  });
  EXPECT_THAT(error,
              HasSubstr("here: expected the field \"text\", found \"id\", \"content\", \"more\""));
  EXPECT_THAT(error, HasSubstr("data.documents.text_field"));
}

std::vector<std::string> found(const Folder& folder, const std::string& pattern) {
  std::vector<std::string> names;
  for (const ConfigPath& path : files_matching(folder.path() + "/" + pattern))
    names.push_back(path.text().substr(folder.path().size() + 1));
  return names;
}

TEST(PathPattern, DoubleStarMatchesNestedFolders) {
  const Folder folder;
  for (const char* name : {"1.txt",
                           "a/2.txt",
                           "a/b/3.txt",
                           "a/b/4.md",
                           "a/[b]*/5.txt",
                           ".hidden/6.txt",
                           "a/.ipynb_checkpoints/7.txt",
                           "a/.8.txt"})
    folder.write(name, "text");
  EXPECT_THAT(found(folder, "**/*.txt"),
              ElementsAre("1.txt", "a/2.txt", "a/[b]*/5.txt", "a/b/3.txt"));
  EXPECT_THAT(found(folder, "a/**"),
              ElementsAre("a/2.txt", "a/[b]*/5.txt", "a/b/3.txt", "a/b/4.md"));
  EXPECT_THAT(found(folder, "**/b/**/*.txt"), ElementsAre("a/b/3.txt"));
  EXPECT_THAT(found(folder, "**/**/3.txt"), ElementsAre("a/b/3.txt"));
  EXPECT_THAT(found(folder, ".hidden/*"), ElementsAre(".hidden/6.txt"));
  for (const char* pattern : {"a**/*.txt", "**.txt"})
    EXPECT_THAT(message_of<DataError>([&] { found(folder, pattern); }),
                HasSubstr("write FOLDER/**/*.txt"));
}

TEST(PathPattern, ReportsIgnoredMatchingFolders) {
  const Folder folder;
  folder.write("1.txt", "text");
  folder.write("more/2.txt", "text");
  std::vector<std::string> notes;
  const ProgressCallback listener = [&](const ScanProgress& scan) { notes.push_back(scan.note); };
  files_of(PathList(folder.path() + "/*.txt"), listener);
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(files_of(PathList(folder.path() + "/*"), listener).size(), 1);
  ASSERT_EQ(notes.size(), 1);
  EXPECT_THAT(notes[0], HasSubstr("ignoring the matching folders \"" + folder.path() + "/more\""));
}

TEST(DataOptions, ReportsDocumentKeysWithoutEffect) {
  const Folder folder;
  DataOptions options;
  options.train = folder.write("a.txt", "text");
  options.documents.field = "body";
  EXPECT_THAT(unread_document_key(options, "data.documents.text_field"), HasSubstr("no file"));
  EXPECT_THAT(unread_document_key(options, "data.documents.end_token"),
              HasSubstr("set data.documents.sample_by to document, paragraph or line"));
  options.train = folder.write("a.json", "{\"body\": \"a\"}\n");
  EXPECT_EQ(unread_document_key(options, "data.documents.text_field"), "");
  EXPECT_EQ(unread_document_key(options, "data.documents.end_token"), "");
  EXPECT_THAT(unread_document_key(options, "data.documents.sample_by"), HasSubstr("JSON lines"));
  options.format = DataFormat::tokens;
  EXPECT_THAT(unread_document_key(options, "data.documents.sample_by"),
              HasSubstr("data.format is tokens"));
}

}  // namespace
}  // namespace longspan::text_input_test
