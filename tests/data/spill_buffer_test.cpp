#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/data/token_file.h"
#include "tests/data/temporary_file.h"
#include "tests/support/temporary_directory.h"

namespace longspan::spill_buffer_test {
namespace {

TEST(SpillBuffer, ReturnsNumbersInOrderForAnyCapacity) {
  const testing::TemporaryDirectory folder;
  for (const std::size_t held : {1, 3, 7, 100}) {
    SpillBuffer numbers(folder.path(), held);
    for (std::uint64_t count = 0; count < 22; ++count) {
      std::uint64_t next = 0;
      numbers.for_each([&next](std::span<const std::uint64_t> part) {
        for (const std::uint64_t number : part) EXPECT_EQ(number, 5 * next++);
      });
      EXPECT_EQ(next, count);
      EXPECT_EQ(numbers.size(), static_cast<std::int64_t>(count));
      numbers.add(5 * count);
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the file has no name";
  }
}

TEST(SpillBuffer, ReportsMissingFolder) {
  SpillBuffer numbers("/nowhere", 1);
  EXPECT_EQ(message_of<Failure>([&] { numbers.add(1); }),
            "/nowhere: a file in it cannot be written: No such file or directory");
}

}  // namespace
}  // namespace longspan::spill_buffer_test
