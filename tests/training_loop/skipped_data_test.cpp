#include "framework/training_loop/skipped_data.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"

namespace longspan::skipped_data_test {
namespace {

using Steps = std::map<std::int64_t, std::int64_t>;

TEST(SkippedData, SkipsBatchesBeforeFirstStepThatReadThem) {
  SkippedData data;
  data.add(10, 13);
  EXPECT_EQ(data.before, (Steps{{10, 4}}));
  EXPECT_EQ(data.before_step(9), 0);
  EXPECT_EQ(data.before_step(10), 4);
  EXPECT_EQ(data.before_step(11), 0);
  EXPECT_EQ(data.until(9), 0);
  EXPECT_EQ(data.until(10), 4);
  data.add(20, 20);
  EXPECT_EQ(data.until(100), 5);
}

TEST(SkippedData, MergesBatchesSkippedWithinInterval) {
  SkippedData data;
  data.add(10, 13);  // batches 10 to 13; step 10 now reads batch 14
  data.add(10, 12);  // 14 to 16
  EXPECT_EQ(data.before, (Steps{{10, 7}}));
  data.add(8, 10);  // 8, 9 and 17
  EXPECT_EQ(data.before, (Steps{{8, 10}}));
  data.add(4, 6);  // excludes the batches before step 8
  EXPECT_EQ(data.before, (Steps{{4, 3}, {8, 10}}));
}

TEST(SkippedData, RoundTripsThroughJson) {
  SkippedData data = {.times = 2, .before = {}};
  data.add(9, 12);
  data.add(40, 40);
  EXPECT_EQ(data.to_json(), "{\"times\":2,\"before\":{\"9\":4,\"40\":1}}\n");
  const SkippedData read = SkippedData::of_json(data.to_json(), "skipped_batches.json");
  EXPECT_EQ(read.times, 2);
  EXPECT_EQ(read.before, data.before);
  EXPECT_EQ(read.batches(), 5);
  EXPECT_THROW(SkippedData::of_json("{\"times\": 1, \"before\": {\"-9\": 1}}", ""), DataError);
}

}  // namespace
}  // namespace longspan::skipped_data_test
