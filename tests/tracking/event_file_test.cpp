#include "framework/tracking/event_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "framework/core/error.h"
#include "framework/tracking/sinks.h"
#include "tests/support/temporary_directory.h"

namespace longspan::event_file_test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream all;
  all << std::ifstream(path, std::ios::binary).rdbuf();
  return all.str();
}

std::string frames(std::initializer_list<std::int64_t> steps) {
  std::string all = record_frame(version_event(1));
  for (const std::int64_t step : steps)
    all += record_frame(text_event({1, step}, "a", std::string(1000, 'x')));
  return all;
}

class EventFile : public ::testing::Test {
 protected:
  fs::path put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
    return folder_.path() / name;
  }
  testing::TemporaryDirectory folder_;
};

TEST(RecordFrame, ContainsLengthAndChecksums) {
  const std::string frame = record_frame("123456789");
  ASSERT_EQ(frame.size(), 8 + 4 + 9 + 4u);
  EXPECT_EQ(frame.substr(0, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(frame.substr(12, 9), "123456789");
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, frame.data() + 8, 4);
  EXPECT_EQ(checksum, masked_crc32c(std::string("\x09\0\0\0\0\0\0\0", 8)));
  std::memcpy(&checksum, frame.data() + 21, 4);
  EXPECT_EQ(checksum, masked_crc32c("123456789"));
}

TEST_F(EventFile, TruncatesEventsAfterTheResumedStep) {
  const std::string full = frames({10, 20, 30, 40});
  const std::string expected = frames({10, 20});
  for (std::size_t size = expected.size(); size <= full.size(); size += 41) {
    const fs::path path = put("events.out.tfevents.0000000001.longspan", full.substr(0, size));
    truncate_events(folder_.path(), 25);
    ASSERT_EQ(text_of(path), expected) << size;
  }
}

TEST_F(EventFile, PreservesForeignAndDamagedFiles) {
  const std::string later = frames({10, 20});
  const fs::path other = put("events.out.tfevents.0000000001.host.17.0", later);
  const fs::path foreign = put("events.out.tfevents.0000000002.longspan", std::string(100, 'x'));
  std::string damaged = later;
  damaged[record_frame(version_event(1)).size()] ^= 1;
  const fs::path flipped = put("events.out.tfevents.0000000003.longspan", damaged);
  truncate_events(folder_.path(), 0);
  EXPECT_EQ(text_of(other), later);
  EXPECT_EQ(text_of(foreign), std::string(100, 'x'));
  EXPECT_EQ(text_of(flipped), damaged);
}

TEST_F(EventFile, NamesSortByStartTime) {
  EXPECT_EQ(next_event_file(folder_.path(), 1764163200), "events.out.tfevents.1764163200.longspan");
  put("events.out.tfevents.1764163200.longspan", "");
  put("events.out.tfevents.1764163205.longspan", "");
  put("events.out.tfevents.9999999999.host", "");
  // Also in the same second, and after the clock was set back.
  EXPECT_EQ(next_event_file(folder_.path(), 1764163200), "events.out.tfevents.1764163206.longspan");
}

TEST_F(EventFile, ResumeTruncatesLaterEventsFromFirstStart) {
  const TrackedRun run = {"id", 0, "run: x\n", {{"run", "x"}}};
  const auto record_at = [](std::int64_t step) {
    return MetricsRecord{.step = step, .time = 1, .fields = {{MetricGroup::training, "loss", 1.0}}};
  };
  std::size_t until = 0;
  fs::path first;
  {
    TensorBoardFiles board(folder_.path(), run);
    for (const std::int64_t step : {1, 2}) board.write(record_at(step));
    first = fs::directory_iterator(folder_.path())->path();
    until = text_of(first).size();
    for (const std::int64_t step : {3, 4}) board.write(record_at(step));
    board.sync();
  }
  ASSERT_GT(text_of(first).size(), until);
  TensorBoardFiles board(folder_.path(), {"id", 2, "run: x\n", {}});
  EXPECT_EQ(text_of(first).size(), until);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 2);
}

TEST_F(EventFile, ThrowsIfFileCannotBeWritten) {
  EXPECT_THROW(TensorBoardEventFile(folder_.path() / "no" / "file"), Failure);
  put("there", "");
  EXPECT_THROW(TensorBoardEventFile(folder_.path() / "there"), Failure);
  EXPECT_THROW(TensorBoardFiles(folder_.path() / "there", {}), Failure);
}

}  // namespace
}  // namespace longspan::event_file_test
