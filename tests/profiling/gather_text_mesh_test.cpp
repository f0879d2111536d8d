// Gathers text from all ranks on the first.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/profiling/trace_text.h"
#include "tests/support/mesh_runner.h"

namespace longspan::gather_text_mesh_test {
namespace {

TEST(GatherText, FirstRankReceivesBlocksInRankOrder) {
  for (const int ranks : {1, 2, 4})
    testing::on_ranks(ranks, [&](const Communicator& group) {
      // Rank r has r blocks of different lengths; rank 0 has two.
      int left = group.rank() == 0 ? 2 : group.rank();
      std::string received;
      gather_text(
          group,
          [&] {
            if (left == 0) return std::string();
            --left;
            return std::string(static_cast<std::size_t>(1000 * left + 1),
                               static_cast<char>('a' + group.rank()));
          },
          [&](std::string_view block) {
            EXPECT_EQ(group.rank(), 0);
            received += fmt::format("{}{} ", block.front(), block.size());
          });
      EXPECT_EQ(left, 0);
      const std::string of_all = "a1001 a1 b1 c1001 c1 d2001 d1001 d1 ";
      const std::size_t length = ranks == 1 ? 9 : ranks == 2 ? 12 : of_all.size();
      EXPECT_EQ(received, group.rank() == 0 ? of_all.substr(0, length) : "");
    });
}

}  // namespace
}  // namespace longspan::gather_text_mesh_test
