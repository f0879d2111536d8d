#include "framework/kernels/attention/chunk_slots.h"

#include "framework/kernels/attention/attention.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::chunk_slots_test {
namespace {

using namespace longspan::testing;
using Ids = std::vector<std::int32_t>;

Tensor ids32(const Ids& ids, const Shape& shape) {
  return Tensor::from<std::int32_t>(ids, shape, backend_device());
}
Ids ids_in(const Tensor& tensor) {
  const Tensor here = tensor.to_host();
  const auto span = here.span<std::int32_t>();
  return {span.begin(), span.end()};
}

// One head, two rounds of 5 positions, the last of which is empty in the order of round 1.
ChunkSlots slots_of(std::int64_t begin, std::int64_t count) {
  ChunkSlots slots = {.order = ids32({4, 3, 2, 1, 0, /**/ 0, 2, 4, 1, -1}, {1, 2, 5}),
                      .chunk = 2,
                      .begin = begin,
                      .count = count};
  slots.bucket = ids32({7, 6, 5, 4, 3, /**/ 1, 8, 1, 9, 2}, {1, 2, 5});
  return slots;
}

void read(ChunkSlots& slots) {
  const std::int64_t keys = slots.count + (slots.look_back + slots.look_ahead) * slots.chunk;
  slots.query_position = Tensor::empty({1, slots.count}, DType::i32, backend_device());
  slots.key_position = Tensor::empty({1, keys}, DType::i32, backend_device());
  slots.query_bucket = slots.query_position.empty_like();
  slots.key_bucket = slots.key_position.empty_like();
  chunk_slots(backend(), slots);
}

TEST(ChunkSlots, WrapsAroundWithinRound) {
  ChunkSlots slots = slots_of(0, 6);
  read(slots);
  EXPECT_EQ(ids_in(slots.query_position), (Ids{4, 3, 2, 1, 0, -1}));
  EXPECT_EQ(ids_in(slots.key_position), (Ids{0, -1, 4, 3, 2, 1, 0, -1}));
  EXPECT_EQ(ids_in(slots.query_bucket), (Ids{3, 4, 5, 6, 7, -1}));
  EXPECT_EQ(ids_in(slots.key_bucket), (Ids{7, -1, 3, 4, 5, 6, 7, -1}));
}

TEST(ChunkSlots, PartIncludesNeighborsOnBothSides) {
  ChunkSlots slots = slots_of(2, 2);
  slots.round = 1;
  slots.look_ahead = 2;
  read(slots);
  EXPECT_EQ(ids_in(slots.query_position), (Ids{4, 1}));
  EXPECT_EQ(ids_in(slots.key_position), (Ids{0, 2, 4, 1, -1, -1, 0, 2}));
  EXPECT_EQ(ids_in(slots.key_bucket), (Ids{1, 1, 2, 8, -1, -1, 1, 1}));
}

TEST(ChunkSlots, WrapsAcrossRoundsWithoutBuckets) {
  ChunkSlots slots = slots_of(0, 2);
  slots.wrap_rounds = true;
  slots.look_back = 2;
  read(slots);
  EXPECT_EQ(ids_in(slots.key_position), (Ids{4, 1, -1, -1, 4, 3}));
  EXPECT_EQ(ids_in(slots.key_bucket), (Ids{-1, -1, -1, -1, 3, 4}));
  slots = slots_of(4, 2);
  slots.wrap_rounds = true;
  slots.look_ahead = 1;
  read(slots);
  EXPECT_EQ(ids_in(slots.key_position), (Ids{2, 1, 0, -1, 0, 2}));
  EXPECT_EQ(ids_in(slots.key_bucket), (Ids{5, 6, 7, -1, -1, -1}));
}

TEST(ChunkSlots, MapsPositionsToChunks) {
  const Tensor place = ids32({0, 1, 2, -1, 5, 6}, {6});
  chunk_of_places(backend(), place, 3, place);
  EXPECT_EQ(ids_in(place), (Ids{0, 0, 0, -1, 1, 2}));
}

constexpr std::int64_t time = 4, slots = 5, heads = 2, dim = 3;
// Each head has its own order. Head 1 leaves two slots empty.
Tensor positions() { return ids32({3, 1, -1, 0, 2, /**/ -1, 2, 0, -1, 1}, {heads, slots}); }
std::int64_t row_of(std::int64_t first, std::int64_t head) { return (first * heads + head) * dim; }

template <typename T>
class SlotRowsTest : public ::testing::Test {};
TYPED_TEST_SUITE(SlotRowsTest, FloatingTypes);

TYPED_TEST(SlotRowsTest, GatherReadsRowOfEachHead) {
  const Values whole = normal_values<TypeParam>(time * heads * dim, 1);
  const Tensor rows = poisoned<TypeParam>({slots, heads, dim});
  gather_slots(backend(), tensor_of<TypeParam>(whole, {time, heads, dim}), positions(), rows);
  const Ids position = ids_in(positions());
  const Values found = values_of(rows);
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t s = 0; s < slots; ++s)
      for (std::int64_t c = 0; c < dim; ++c) {
        const std::int64_t at = position[static_cast<std::size_t>(h * slots + s)];
        EXPECT_EQ(found[static_cast<std::size_t>(row_of(s, h) + c)],
                  at < 0 ? 0 : whole[static_cast<std::size_t>(row_of(at, h) + c)]);
      }
}

// Scattering is the adjoint of gathering: <gather(x), y> = <x, scatter(y)>.
TYPED_TEST(SlotRowsTest, ScatterIsTransposeOfGather) {
  const Values rows = normal_values<TypeParam>(slots * heads * dim, 2);
  const auto run = [&]<typename D>(TypeTag<D>) {
    const Values before = normal_values<D>(time * heads * dim, 3);
    const SlotScatter scatter = {.rows = tensor_of<TypeParam>(rows, {slots, heads, dim}),
                                 .position = positions(),
                                 .begin = 1,
                                 .end = 5,
                                 .whole = tensor_of<D>(before, {time, heads, dim})};
    scatter_slots(backend(), scatter);
    Values expected = before;
    const Ids position = ids_in(positions());
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t s = 1; s < 5; ++s)
        for (std::int64_t c = 0; c < dim; ++c) {
          const std::int64_t at = position[static_cast<std::size_t>(h * slots + s)];
          if (at >= 0)
            expected[static_cast<std::size_t>(row_of(at, h) + c)] +=
                rows[static_cast<std::size_t>(row_of(s, h) + c)];
        }
    expect_close(values_of(scatter.whole), expected, tolerance<D>(), 1);
  };
  run(TypeTag<TypeParam>());
  run(TypeTag<Accumulator<TypeParam>>());
}

TYPED_TEST(SlotRowsTest, MergeWeightsByLogSumExp) {
  using A = Accumulator<TypeParam>;
  const Values out = normal_values<A>(time * heads * dim, 1);
  const Values part = normal_values<TypeParam>(slots * heads * dim, 2);
  Values sums = normal_values<A>(heads * time, 3);
  Values part_sums = normal_values<A>(heads * slots, 4);
  sums[2] = -infinity;       // head 0, position 2: nothing yet
  part_sums[0] = -infinity;  // head 0, slot 0: nothing in this part
  const MergeAttention merge = {.out = tensor_of<A>(out, {1, time, heads, dim}),
                                .log_sum_exp = tensor_of<A>(sums, {1, heads, time}),
                                .part = tensor_of<TypeParam>(part, {1, slots, heads, dim}),
                                .part_log_sum_exp = tensor_of<A>(part_sums, {1, heads, slots}),
                                .position = positions().reshape({1, heads, slots})};
  merge_attention(backend(), merge);
  Values expected = out, expected_sums = sums;
  const Ids position = ids_in(positions());
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t s = 0; s < slots; ++s) {
      const std::int64_t at = position[static_cast<std::size_t>(h * slots + s)];
      if (at < 0) continue;
      const auto place = static_cast<std::size_t>(h * time + at);
      const double before = std::exp(sums[place]);
      const double now = std::exp(part_sums[static_cast<std::size_t>(h * slots + s)]);
      expected_sums[place] = std::log(before + now);
      for (std::int64_t c = 0; c < dim; ++c) {
        double& value = expected[static_cast<std::size_t>(row_of(at, h) + c)];
        value = (before * value + now * part[static_cast<std::size_t>(row_of(s, h) + c)]) /
                (before + now);
      }
    }
  expect_close(values_of(merge.out), expected, tolerance<A>());
  expect_close(values_of(merge.log_sum_exp), expected_sums, tolerance<A>());
}

TEST(ChunkSlots, GatheredValuesAreZeroInEmptySlots) {
  const Tensor values = poisoned<float>({heads, slots});
  gather_slot_values(backend(),
                     tensor_of<float>({1, 2, 3, 4, /**/ 5, 6, 7, 8}, {heads, time}),
                     positions(),
                     values);
  EXPECT_EQ(values_of(values), (Values{4, 2, 0, 1, 3, /**/ 0, 7, 5, 0, 6}));
}

}  // namespace
}  // namespace longspan::chunk_slots_test
