#include "framework/data/mapped_file.h"

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

TEST(MappedFile, CopiesAnyPartOfTheFile) {
  const TemporaryFile file("0123456789");
  const MappedFile mapped(file.path());
  EXPECT_EQ(mapped.size(), 10);
  std::vector<char> out(4);
  mapped.copy(3, out);
  EXPECT_EQ(std::string(out.begin(), out.end()), "3456");
  mapped.copy(6, out);
  EXPECT_EQ(std::string(out.begin(), out.end()), "6789");
  EXPECT_THROW(mapped.copy(7, out), Failure);
}

TEST(MappedFile, SaysWhatIsWrongWithAFileThatCannotBeUsed) {
  EXPECT_THAT(sentence_of<DataError>([] { MappedFile("/nowhere/text.txt"); }),
              HasSubstr("/nowhere/text.txt: cannot be opened for reading: No such file"));
  EXPECT_THAT(sentence_of<DataError>([] { MappedFile("/tmp"); }),
              HasSubstr("/tmp: is not a regular file"));
  const TemporaryFile empty("");
  EXPECT_THAT(sentence_of<DataError>([&] { MappedFile(empty.path()); }), HasSubstr("is empty"));
  const std::string pipe = empty.path() + "-pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(sentence_of<DataError>([&] { MappedFile{pipe}; }), HasSubstr("not a regular file"));
  std::filesystem::remove(pipe);
}

TEST(MappedFile, RefusesAFileThatHasBecomeShorterOnAnyPage) {
  const std::string text(3 * 4096, 'a');
  std::vector<char> out(100);
  {
    const TemporaryFile file(text);
    const MappedFile mapped(file.path());
    file.resize(2 * 4096 + 50);  // the rest of the last page would read as zeros
    EXPECT_THAT(sentence_of<DataError>([&] { mapped.copy(2 * 4096, out); }),
                HasSubstr("has become shorter while it was read: 12288 bytes when opened, 8242"));
    mapped.copy(4096, out);
    EXPECT_EQ(out[99], 'a');
  }
  {
    const TemporaryFile file(text);
    const MappedFile mapped(file.path());
    file.resize(10);  // a plain load from the pages behind it would end in SIGBUS
    EXPECT_THAT(sentence_of<DataError>([&] { mapped.copy(2 * 4096, out); }),
                HasSubstr("has become shorter"));
  }
}

TEST(MappedFile, ThirtyGigabytesAreReadWithoutHoldingThem) {
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
  // 52 MB of text were read; without giving them back they would all count.
  EXPECT_LT(most - before, 16 << 20);
}

}  // namespace
}  // namespace longspan
