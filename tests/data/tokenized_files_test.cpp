#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "framework/core/error.h"
#include "framework/data/corpus/document_text.h"
#include "framework/data/tokenization/token_cache.h"
#include "tests/data/packed_text.h"
#include "tests/data/subword_text.h"
#include "tests/data/temporary_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::tokenized_files_test {
namespace {

using ::testing::HasSubstr;

class TokenizeFilesTest : public ::testing::Test {
 protected:
  ConfigPath write(const std::string& name, std::string_view content) const {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path;
  }
  std::filesystem::path cache() const { return folder_.path() / "cache"; }

  testing::TemporaryDirectory folder_;
};

TEST_F(TokenizeFilesTest, ReportsEachFileOnce) {
  std::vector<ConfigPath> files;
  for (int i = 0; i < 9; ++i)
    files.push_back(write(std::to_string(i) + ".jsonl",
                          "{\"text\": \"" + std::string(static_cast<std::size_t>(i) + 1, 'a') +
                              "\"}\n{\"text\": \"b\"}\n"));
  files.push_back(write("plain.txt", "abc"));
  for (const bool existed : {false, true}) {
    std::map<std::string, PreparedFile> done;
    tokenize_files(files, {}, {}, cache(), {}, {}, [&done](const PreparedFile& prepared) {
      EXPECT_TRUE(done.emplace(prepared.file.text(), prepared).second);
    });
    ASSERT_EQ(done.size(), files.size());
    for (std::size_t i = 0; i < 9; ++i) {
      const auto& made = done.at(files[i].text()).made;
      ASSERT_TRUE(made);
      EXPECT_EQ(made->existed, existed);
      EXPECT_EQ(made->tokens->documents(), 2);
      EXPECT_EQ(made->tokens->tokens(), static_cast<std::int64_t>(i) + 2);
    }
    EXPECT_FALSE(done.at(files.back().text()).made) << "it is read where it is";
  }
}

TEST_F(TokenizeFilesTest, ReportsFirstFailingFile) {
  std::vector<ConfigPath> files;
  for (int i = 0; i < 6; ++i)
    files.push_back(write(std::to_string(i) + ".jsonl", i < 2 ? "{\"text\": \"a\"}\n" : "{}\n"));
  int done = 0;
  EXPECT_THAT(message_of<DataError>([&] {
                tokenize_files(
                    files, {}, {}, cache(), {}, {}, [&done](const PreparedFile&) { ++done; });
              }),
              HasSubstr("2.jsonl:1: expected the field \"text\", found "));
  EXPECT_GE(done, 1);
}

TEST_F(TokenizeFilesTest, CharactersAndSamplesComeFromDocuments) {
  std::string json;
  for (int i = 0; i < 1000; ++i) json += "{\"id\": \"XYZ\", \"text\": \"b\\u00e9 a\\n\"}\n";
  for (const auto& [name, content] :
       {std::pair("a.jsonl", json), std::pair("a.jsonl.gz", gzip_of(json))}) {
    const auto file = std::make_shared<const InputFile>(write(name, content));
    EXPECT_FALSE(is_plain_text(*file, {}));
    EXPECT_EQ(characters_of_documents(file, {}, false),
              Tokenizer::characters(std::vector<char32_t>{'\n', ' ', 'a', 'b', 0xE9}, false));
    const auto text = sample_of_documents(file, {}, 600);
    EXPECT_EQ(text->path(), file->path());
    EXPECT_LE(text->size(), 600);
    EXPECT_GE(text->size(), 300);
    std::string line(6, '\0');
    text->copy(text->size() - 6, line);
    EXPECT_EQ(line, "b\u00e9 a\n");
  }
}

}  // namespace
}  // namespace longspan::tokenized_files_test
