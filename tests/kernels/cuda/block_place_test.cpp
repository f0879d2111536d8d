// The tile and the pair of each attention block.
#include <set>

#include "framework/kernels/attention/cuda/block_range.h"
#include "framework/kernels/cuda/launch.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::block_place_test {
namespace {

using namespace longspan::testing;
using tile_attention::AttentionCall;
using tile_attention::BlockPosition;
using tile_attention::GroupCall;

__global__ void note_places(GroupCall<float> group,
                            const std::int64_t* order,
                            int slices,
                            std::int64_t* places) {
  if (threadIdx.x != 0) return;
  const BlockPosition block(group, order, slices);
  std::int64_t* const place = places + std::int64_t{4} * blockIdx.x;
  place[0] = block.b;
  place[1] = block.h;
  place[2] = block.tile_index;
  place[3] = block.first;
}

// Attention with so many rows that few pairs of batch row and head fit a cache.
GroupCall<float> group_of(std::int64_t batch, std::int64_t heads, std::int64_t time) {
  const Device dry = Device::meta();
  const Tensor x = Tensor::empty({batch, time, heads + 2, 64}, DType::f32, dry);
  const Tensor sums = Tensor::empty({batch, heads + 2, time}, DType::f32, dry);
  Attention a;
  a.query = a.key = a.value = a.out = x;
  a.log_sum_exp = sums;
  return {AttentionCall<float>(a), {}, 1, heads};
}

TEST(BlockPosition, AssignsEachTileToOneBlockInGroupsOfPairs) {
  const std::vector<std::int64_t> order = {2, 0, 3, 1, 4};
  const Tensor order_there = ids_of(order);
  for (const std::int64_t together : {1, 2, 3, 10})
    for (const int slices : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} pairs together, {} slices", together, slices));
      const std::int64_t batch = 5, heads = 2, pairs = batch * heads, tiles = std::ssize(order);
      const GroupCall<float> group = group_of(batch, heads, (std::int64_t{1} << 16) / together);
      ASSERT_EQ(group.pairs_together(), together);
      const Tensor places = ids_of(
          std::vector<std::int64_t>(static_cast<std::size_t>(4 * pairs * tiles * slices), -1));
      launch(backend(),
             {.blocks = pairs * tiles * slices, .threads = 32},
             note_places,
             group,
             order_there.data<std::int64_t>(),
             slices,
             places.data<std::int64_t>());
      const Tensor found = places.to_host();
      const auto place = found.span<std::int64_t>();
      std::set<std::vector<std::int64_t>> seen;
      for (std::int64_t block = 0; block < pairs * tiles * slices; ++block) {
        const auto begin = place.begin() + 4 * block;
        EXPECT_TRUE(seen.emplace(begin, begin + 4).second) << block;
        // Blocks of the first pairs come first, and within these the largest tiles.
        const std::int64_t pair = begin[0] * heads + begin[1] - 1;
        const std::int64_t item = block / slices, of_group = pair / together;
        const std::int64_t here = std::min(together, pairs - of_group * together);
        EXPECT_EQ(of_group, item / (together * tiles)) << block;
        EXPECT_EQ(begin[2],
                  order[static_cast<std::size_t>((item - of_group * together * tiles) / here)])
            << block;
      }
    }
}

}  // namespace
}  // namespace longspan::block_place_test
