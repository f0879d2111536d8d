#include "checkpoints/box.h"

#include <gtest/gtest.h>

#include <numeric>

namespace longspan {
namespace {

TEST(Box, ARangeIsBoxesInTheOrderOfItsElements) {
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
                       whole_box(whole),
                       reinterpret_cast<const std::byte*>(all.data()),
                       box,
                       reinterpret_cast<std::byte*>(found.data()));
          for (const std::int64_t element : found) ASSERT_EQ(element, next++) << box.to_string();
        }
        ASSERT_EQ(next, end);
        // A middle, and what is left of a row of each axis before and after it.
        ASSERT_LE(std::ssize(boxes), 2 * whole.dimensions() - 1);
      }
  }
}

TEST(Box, ARangeOfWholeRowsIsOneBox) {
  EXPECT_EQ(boxes_of_range({4, 3, 2}, 6, 18), (std::vector<Box>{{{2, 3, 2}, {1, 0, 0}}}));
  EXPECT_EQ(boxes_of_range({4, 3}, 0, 12), (std::vector<Box>{whole_box({4, 3})}));
  EXPECT_EQ(boxes_of_range({4, 0}, 0, 0), (std::vector<Box>{}));
}

}  // namespace
}  // namespace longspan
