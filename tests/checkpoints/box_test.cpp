#include "checkpoints/box.h"

#include <gtest/gtest.h>

#include <numeric>

namespace longspan::box_test {
namespace {

TEST(Box, SplitsRangeIntoBoxesInElementOrder) {
  for (const Shape& whole :
       {Shape{7}, Shape{3, 4}, Shape{1, 5}, Shape{5, 1}, Shape{3, 2, 4}, Shape{2, 3, 1, 2}}) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(whole.elements()));
    std::iota(all.begin(), all.end(), 0);
    for (std::int64_t begin = 0; begin <= whole.elements(); ++begin)
      for (std::int64_t end = begin; end <= whole.elements(); ++end) {
        std::int64_t next = begin;
        const std::vector<Box> boxes = boxes_of_range(whole, begin, end);
        for (const Box& box : boxes) {
          ASSERT_TRUE(lies_in(box, whole)) << box.to_string();
          std::vector<std::int64_t> found(static_cast<std::size_t>(box.shape.elements()));
          copy_overlap(sizeof(std::int64_t),
                       full_box(whole),
                       reinterpret_cast<const std::byte*>(all.data()),
                       box,
                       reinterpret_cast<std::byte*>(found.data()));
          for (const std::int64_t element : found) ASSERT_EQ(element, next++) << box.to_string();
        }
        ASSERT_EQ(next, end);
        // One block of full rows, and per axis at most one partial row before and after it.
        ASSERT_LE(std::ssize(boxes), 2 * whole.dimensions() - 1);
      }
  }
}

TEST(Box, MergesFullRowsIntoOneBox) {
  EXPECT_EQ(boxes_of_range({4, 3, 2}, 6, 18), (std::vector<Box>{{{2, 3, 2}, {1, 0, 0}}}));
  EXPECT_EQ(boxes_of_range({4, 3}, 0, 12), (std::vector<Box>{full_box({4, 3})}));
  EXPECT_EQ(boxes_of_range({4, 0}, 0, 0), (std::vector<Box>{}));
}

// Pairwise comparison of this many boxes would take too long.
TEST(Box, CoverageCheckScalesToManyPieces) {
  std::vector<Box> columns, grid;
  for (std::int64_t i = 0; i < 200'000; ++i) columns.push_back({{3, 1}, {0, i}});
  EXPECT_EQ(validate_coverage({3, 200'000}, columns), "");
  for (std::int64_t i = 0; i < 500; ++i)
    for (std::int64_t j = 0; j < 500; ++j) grid.push_back({{1, 2, 1}, {i, 0, j}});
  EXPECT_EQ(validate_coverage({500, 2, 500}, grid), "");
  grid.pop_back();
  EXPECT_EQ(validate_coverage({500, 2, 500}, grid), "no piece covers 2 of its 500000 elements");
  grid.push_back({{1, 1, 1}, {7, 1, 9}});
  EXPECT_EQ(validate_coverage({500, 2, 500}, grid),
            "pieces [1, 2, 1] at [7, 0, 9] and [1, 1, 1] at [7, 1, 9] overlap");
}

TEST(Box, CoverageCheckRejectsLargeIndivisibleLayouts) {
  // A pinwheel: four boxes around a fifth.
  const std::vector<Box> wheel = {
      {{1, 2}, {0, 0}}, {{2, 1}, {0, 2}}, {{1, 2}, {2, 1}}, {{2, 1}, {1, 0}}, {{1, 1}, {1, 1}}};
  EXPECT_EQ(validate_coverage({3, 3}, wheel), "");
  // Four boxes around many small ones.
  constexpr std::int64_t count = 20'000;
  std::vector<Box> boxes = {{{1, count + 1}, {0, 0}},
                            {{2, 1}, {0, count + 1}},
                            {{1, count + 1}, {2, 1}},
                            {{2, 1}, {1, 0}}};
  for (std::int64_t i = 0; i < count; ++i) boxes.push_back({{1, 1}, {1, 1 + i}});
  EXPECT_EQ(validate_coverage({3, count + 2}, boxes),
            "no layout divides a tensor into these 20004 pieces");
}

}  // namespace
}  // namespace longspan::box_test
