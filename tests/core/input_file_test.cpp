#include "framework/core/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "framework/core/error.h"
#include "tests/data/temporary_file.h"

namespace longspan::input_file_test {
namespace {

using ::testing::HasSubstr;

TEST(InputFile, CopiesAnyRange) {
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

TEST(InputFile, ReportsUnusableFiles) {
  EXPECT_THAT(message_of<DataError>([] { InputFile("/nowhere/text.txt"); }),
              HasSubstr("/nowhere/text.txt: cannot be opened for reading: No such file"));
  EXPECT_THAT(message_of<DataError>([] { InputFile("/tmp"); }),
              HasSubstr("/tmp: expected a regular file"));
  const TemporaryFile empty("");
  EXPECT_THAT(message_of<DataError>([&] { InputFile(empty.path()); }), HasSubstr("is empty"));
  const std::string pipe = empty.path() + "-pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(message_of<DataError>([&] { InputFile(pipe, 10); }),
              HasSubstr("named pipe without a writer"));
  std::filesystem::remove(pipe);
  EXPECT_THAT(message_of<DataError>([] { InputFile("/dev/zero"); }),
              HasSubstr("/dev/zero: expected a regular file"));
}

// A pipe with this text, with a path as in <(command) of a shell.
class Pipe {
 public:
  explicit Pipe(const std::string& text) {
    EXPECT_EQ(::pipe(ends_), 0);
    writer_ = std::thread([this, text] {
      EXPECT_EQ(::write(ends_[1], text.data(), text.size()), std::ssize(text));
      ::close(ends_[1]);
    });
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    writer_.join();
    ::close(ends_[0]);
  }
  std::string path() const { return "/dev/fd/" + std::to_string(ends_[0]); }

 private:
  int ends_[2] = {};
  std::thread writer_;
};

TEST(InputFile, ReadsAndReopensPipes) {
  const std::string text = std::string(300'000, 'a') + "end";  // more than a pipe holds
  const Pipe pipe(text);
  for (int i = 0; i < 3; ++i) {
    const InputFile opened(pipe.path());
    EXPECT_EQ(opened.path(), pipe.path());
    EXPECT_EQ(opened.text(1 << 20), text);
    std::vector<char> out(3);
    opened.copy(300'000, out);
    EXPECT_EQ(std::string(out.begin(), out.end()), "end");
  }
  const Pipe empty("");
  EXPECT_THAT(message_of<DataError>([&] { InputFile{empty.path()}; }), HasSubstr("is empty"));
  EXPECT_THAT(message_of<DataError>([] { InputFile("/dev/fd/1999"); }),
              HasSubstr("cannot be opened for reading: No such file"));
}

TEST(InputFile, WaitsForNamedPipeWriter) {
  const TemporaryFile place("");
  const std::string path = place.path() + "-pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::ofstream(path) << "text";
  });
  EXPECT_EQ(InputFile(path).text(10), "text");
  writer.join();
  std::filesystem::remove(path);
}

TEST(InputFile, DropsLeadingBytes) {
  const TemporaryFile file("0123456789");
  InputFile opened(file.path());
  opened.drop_first(3);
  EXPECT_EQ(opened.size(), 7);
  EXPECT_EQ(opened.text(10), "3456789");
  std::vector<char> out(2);
  opened.copy(5, out);
  EXPECT_EQ(std::string(out.begin(), out.end()), "89");
  EXPECT_THROW(opened.copy(6, out), Failure);
  EXPECT_THAT(message_of<DataError>([&] { opened.drop_first(7); }), HasSubstr("is empty"));
}

TEST(InputFile, RejectsTruncatedFile) {
  const std::string text(3 * 4096, 'a');
  std::vector<char> out(100);
  {
    const TemporaryFile file(text);
    const InputFile opened(file.path());
    file.resize(2 * 4096 + 50);
    EXPECT_THAT(message_of<DataError>([&] { opened.copy(2 * 4096, out); }),
                HasSubstr("truncated while reading (12288 bytes when opened, 8242"));
    opened.copy(4096, out);
    EXPECT_EQ(out[99], 'a');
  }
  {
    const TemporaryFile file(text);
    const InputFile opened(file.path());
    file.resize(10);
    EXPECT_THAT(message_of<DataError>([&] { opened.copy(2 * 4096, out); }),
                HasSubstr("truncated while reading"));
  }
}

TEST(InputFile, ReturnsTextUpToLimit) {
  const TemporaryFile file("0123456789");
  EXPECT_EQ(InputFile(file.path()).text(10), "0123456789");
  EXPECT_THAT(message_of<DataError>([&] { InputFile(file.path()).text(9); }),
              HasSubstr(file.path() + ": expected at most 9 bytes, found 10"));
}

TEST(InputFile, RaisesSoftLimitForOpenFiles) {
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
