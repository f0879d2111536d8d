// Positions of each rank, and rows of a sharded memory.
#include "framework/nn/sequence_shard.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/support/mesh_runner.h"

namespace longspan::sequence_shard_mesh_test {
namespace {

using testing::backend_device;
using testing::values_of;

// Rows of the positions. Row p of stream s has 1000 s + p and half of it.
Tensor rows_at(const Ranges& positions) {
  const std::int64_t streams = 2;
  const Tensor result =
      Tensor::empty({streams, total_count(positions), 2}, DType::f64, backend_device());
  double* to = result.data<double>();
  for (std::int64_t stream = 0; stream < streams; ++stream)
    for (const Range& range : positions)
      for (std::int64_t p = range.begin; p < range.end; ++p) {
        *to++ = static_cast<double>(1000 * stream + p);
        *to++ = static_cast<double>(1000 * stream + p) / 2;
      }
  return result;
}

Ranges shifted(Ranges ranges, std::int64_t distance) {
  for (Range& range : ranges) range = {range.begin + distance, range.end + distance};
  return ranges;
}

TEST(SequenceShard, AssignsEachPositionToOneRank) {
  testing::for_each_layout(testing::time_layouts(), [](const ProcessMesh& mesh) {
    EXPECT_EQ(mesh.time.size(), mesh.shape.sequence_ranks());
    for (const std::int64_t total : {0, 1, 5, 8, 24}) {
      for (const auto divide : {shard_sequence, shard_memory}) {
        const SequenceShard division = divide(mesh, total);
        EXPECT_EQ(division.total, total);
        EXPECT_EQ(division.divided(), mesh.shape.sequence);
        const Tensor held = Tensor::zeros({total}, DType::i64, backend_device());
        for (const Range& range : division.outside())
          for (std::int64_t p = range.begin; p < range.end; ++p) ++held.data<std::int64_t>()[p];
        mesh.time.all_reduce(held, Reduction::sum);
        for (const std::int64_t times : held.span<std::int64_t>()) EXPECT_EQ(times, 1);
        // A region joins the positions of its tensor ranks.
        const std::int64_t inside = total_count(division.inside());
        const std::int64_t outside = total_count(division.outside());
        EXPECT_EQ(inside,
                  mesh.shape.sequence ? mesh.tensor.all_reduce(outside, Reduction::sum) : outside);
      }
    }
  });
}

TEST(SequenceShard, BalancesCausalWorkOverContextRanks) {
  testing::for_each_layout({{.context = 2}, {.context = 4}}, [](const ProcessMesh& mesh) {
    const std::int64_t total = 48;
    std::int64_t pairs = 0;
    const SequenceShard division = shard_sequence(mesh, total);
    for (const Range& range : division.outside())
      for (std::int64_t p = range.begin; p < range.end; ++p) pairs += p + 1;
    EXPECT_EQ(pairs, total * (total + 1) / 2 / mesh.context.size());
  });
}

TEST(SequenceShard, MemoryKeepsLastRowsInOrder) {
  testing::for_each_layout(testing::time_layouts(), [](const ProcessMesh& mesh) {
    for (const std::int64_t remembered : {0, 3, 8})
      for (const std::int64_t time : {1, 5, 8})
        for (const std::int64_t longest : {1, 4, 7, 100}) {
          SCOPED_TRACE(fmt::format("{} rows, {} positions, at most {}", remembered, time, longest));
          const Ranges old_rows = shard_memory(mesh, remembered).outside();
          const Ranges new_rows = shard_sequence(mesh, time).outside();
          const Tensor found = update_memory(rows_at(old_rows),
                                             remembered,
                                             rows_at(shifted(new_rows, remembered)),
                                             time,
                                             longest,
                                             mesh);
          const std::int64_t length = std::min(longest, remembered + time);
          const Ranges kept = shard_memory(mesh, length).outside();
          EXPECT_EQ(values_of(found),
                    values_of(rows_at(shifted(kept, remembered + time - length))));
        }
  });
}

}  // namespace
}  // namespace longspan::sequence_shard_mesh_test
