#include "framework/data/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "framework/core/error.h"
#include "framework/data/corpus.h"
#include "framework/data/stream_reader.h"
#include "tests/data/process_bytes.h"
#include "tests/data/temporary_file.h"

namespace longspan {
namespace {

using testing::HasSubstr;

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

TEST(InputFile, ThirtyGigabytesAreReadWithoutHoldingThem) {
  const TemporaryFile file("begin");
  const std::int64_t size = 30'000'000'000;
  file.resize(static_cast<std::uintmax_t>(size));
  const std::int64_t before = process_bytes("RssFile");
  const Corpus corpus(file.path(), Tokenizer());
  EXPECT_EQ(corpus.tokens(), size);
  StreamReader reader(corpus, {.streams = 4, .segment = 1 << 20}, 0, 1, Device::cpu());
  Batch batch = reader.next();
  EXPECT_EQ(batch.field("tokens").span<std::int64_t>()[0], 'b');
  std::int64_t most = 0;
  for (int i = 0; i < 12; ++i) {
    batch = reader.next();
    most = std::max(most, process_bytes("RssFile"));
  }
  // 52 MB of text were read.
  EXPECT_LT(most - before, 4 << 20);
}

}  // namespace
}  // namespace longspan
