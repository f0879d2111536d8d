#include "framework/core/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <vector>

#include "framework/core/error.h"
#include "tests/data/temporary_file.h"

namespace longspan::input_file_test {
namespace {

using ::testing::HasSubstr;

TEST(InputFile, CopiesAnyPartOfTheFile) {
  const TemporaryFile file("0123456789");
  const InputFile opened(file.path());
  EXPECT_EQ(opened.size(), 10);
  std::vector<char> out(4);
  opened.copy(3, out);
  EXPECT_EQ(std::string(out.begin(), out.end()), "3456");
  opened.copy(6, out);
  EXPECT_EQ(std::string(out.begin(), out.end()), "6789");
  EXPECT_THROW(opened.copy(7, out), Failure);
}

TEST(InputFile, SaysWhatIsWrongWithAFileThatCannotBeUsed) {
  EXPECT_THAT(sentence_of<DataError>([] { InputFile("/nowhere/text.txt"); }),
              HasSubstr("/nowhere/text.txt: cannot be opened for reading: No such file"));
  EXPECT_THAT(sentence_of<DataError>([] { InputFile("/tmp"); }),
              HasSubstr("/tmp: is not a regular file"));
  const TemporaryFile empty("");
  EXPECT_THAT(sentence_of<DataError>([&] { InputFile(empty.path()); }), HasSubstr("is empty"));
  const std::string pipe = empty.path() + "-pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(sentence_of<DataError>([&] { InputFile{pipe}; }), HasSubstr("not a regular file"));
  std::filesystem::remove(pipe);
}

TEST(InputFile, RefusesAFileThatHasBecomeShorter) {
  const std::string text(3 * 4096, 'a');
  std::vector<char> out(100);
  {
    const TemporaryFile file(text);
    const InputFile opened(file.path());
    file.resize(2 * 4096 + 50);
    EXPECT_THAT(sentence_of<DataError>([&] { opened.copy(2 * 4096, out); }),
                HasSubstr("has become shorter while it was read: 12288 bytes when opened, 8242"));
    opened.copy(4096, out);
    EXPECT_EQ(out[99], 'a');
  }
  {
    const TemporaryFile file(text);
    const InputFile opened(file.path());
    file.resize(10);
    EXPECT_THAT(sentence_of<DataError>([&] { opened.copy(2 * 4096, out); }),
                HasSubstr("has become shorter"));
  }
}

TEST(InputFile, IsAllThatFitsAsOneText) {
  const TemporaryFile file("0123456789");
  EXPECT_EQ(InputFile(file.path()).text(10), "0123456789");
  EXPECT_THAT(sentence_of<DataError>([&] { InputFile(file.path()).text(9); }),
              HasSubstr(file.path() + ": found 10 bytes; wanted at most 9"));
}

TEST(InputFile, AProcessHoldsAsManyAsTheSystemLetsIt) {
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  if (usual.rlim_max < 300) GTEST_SKIP() << "at most " << usual.rlim_max << " files";
  const rlimit few{100, usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const TemporaryFile file("0123456789");
  std::vector<InputFile> files;
  for (int i = 0; i < 200; ++i) files.emplace_back(file.path());
  std::vector<char> out(10);
  files.back().copy(0, out);
  EXPECT_EQ(out[9], '9');
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
}

}  // namespace
}  // namespace longspan::input_file_test
