// Clock offsets between processes whose clocks differ.
#include <gtest/gtest.h>

#include "framework/core/timeline.h"
#include "framework/profiling/trace_text.h"
#include "tests/support/mesh_runner.h"

namespace longspan::clock_offset_mesh_test {
namespace {

TEST(ClockOffset, RanksOnOneMachineShareOffset) {
  testing::on_ranks(4, [](const Communicator& group) {
    const int machine = group.rank() / 2;
    const std::int64_t wrong = 5'000'000'000 * machine;
    const RankClock clock = {.now = [wrong] { return steady_nanoseconds() + wrong; },
                             .name = machine == 0 ? "here" : "there"};
    const ClockOffset found = clock_offset(group, clock);
    EXPECT_LE(std::abs(found.offset - wrong), found.uncertainty);
    if (machine == 0) {
      EXPECT_EQ(found.uncertainty, 0);
    }
    // All ranks of a machine have the offset that one of them measures.
    const std::int64_t sum = group.all_reduce(found.offset, Reduction::sum);
    EXPECT_EQ(sum, 2 * group.all_reduce(found.offset, Reduction::maximum));
  });
}

TEST(ClockOffset, IsZeroOnOneMachine) {
  testing::on_ranks(4, [](const Communicator& group) {
    const ClockOffset found = clock_offset(group, steady_clock_of_machine());
    EXPECT_EQ(found.offset, 0);
    EXPECT_EQ(found.uncertainty, 0);
  });
}

}  // namespace
}  // namespace longspan::clock_offset_mesh_test
