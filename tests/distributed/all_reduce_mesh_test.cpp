// all_reduce: exact bits, concurrent requests, and counts above 2^31.
#include <gtest/gtest.h>

#include <cstring>

#include "framework/core/random.h"
#include "tests/support/mesh_runner.h"

namespace longspan::all_reduce_mesh_test {
namespace {

Tensor random_tensor(const Device& device, std::int64_t elements, std::uint64_t place) {
  const Random random = Random(7).child(place);
  const Tensor tensor = Tensor::empty({elements}, DType::f32, device);
  for (std::int64_t i = 0; i < elements; ++i)
    tensor.data<float>()[i] = static_cast<float>(random.normal_at(static_cast<std::uint64_t>(i)));
  return tensor;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.byte_size() == b.byte_size() && std::memcmp(a.bytes(), b.bytes(), a.byte_size()) == 0;
}

// Reference: ((rank 0 + rank 1) + rank 2) + ... in one process. Every transport and every size has
// these bits on all ranks.
TEST(AllReduce, AddsInRankOrderBitForBit) {
  const Device device = Device::cpu();
  for (int ranks = 2; ranks <= 4; ++ranks)
    testing::on_ranks(ranks, [&](const Communicator& group) {
      for (const std::int64_t count : {1, 100, 10000, 1000003}) {
        const Tensor expected = random_tensor(device, count, 0);
        for (int rank = 1; rank < group.size(); ++rank) {
          const Tensor other = random_tensor(device, count, static_cast<std::uint64_t>(rank));
          for (std::int64_t i = 0; i < count; ++i)
            expected.data<float>()[i] += other.data<float>()[i];
        }
        const Tensor tensor =
            random_tensor(device, count, static_cast<std::uint64_t>(group.rank()));
        group.all_reduce(tensor, Reduction::sum);
        EXPECT_TRUE(same_bits(tensor, expected)) << count << " elements on " << ranks << " ranks";
      }
    });
}

TEST(ReduceScatter, MatchesAllReduceBits) {
  const Device device = Device::cpu();
  testing::on_ranks(4, [&](const Communicator& group) {
    const std::int64_t part = 200001;
    const Tensor all =
        random_tensor(device, part * group.size(), static_cast<std::uint64_t>(group.rank()));
    const Tensor mine = Tensor::empty({part}, DType::f32, device);
    group.reduce_scatter(all, mine);
    group.all_reduce(all, Reduction::sum);
    EXPECT_TRUE(same_bits(mine, all.slice(part * group.rank(), part * (group.rank() + 1))));
  });
}

TEST(AllReduce, RoundsBf16SumsOnce) {
  const Device device = Device::cpu();
  testing::on_ranks(4, [&](const Communicator& group) {
    for (const std::int64_t count : {1, 100000}) {
      const Tensor tensor = Tensor::empty({count}, DType::bf16, device);
      for (BFloat16& element : tensor.span<BFloat16>())
        element = BFloat16(group.rank() == 0 ? 256.0F : 1.0F);
      group.all_reduce(tensor, Reduction::sum);
      // 259 is a tie of 258 and 260, rounded to even. Rounding each addition would give 256.
      EXPECT_EQ(static_cast<float>(tensor.data<BFloat16>()[count - 1]), 260.0F);
    }
  });
}

TEST(AllReduce, SupportsConcurrentRequests) {
  const Device device = Device::cpu();
  testing::on_ranks(4, [&](const Communicator& group) {
    const Communicator pair = group.split(group.rank() / 2, group.rank(), "pair");
    constexpr int buckets = 12;
    std::vector<Tensor> tensors;
    std::vector<Request> requests;
    for (int i = 0; i < buckets; ++i) {
      tensors.push_back(Tensor::empty({700000 + i}, DType::f32, device));
      for (float& element : tensors.back().span<float>())
        element = static_cast<float>(i + group.rank());
      requests.push_back(group.start_all_reduce(tensors.back(), Reduction::sum));
      // Other groups and blocking calls are not delayed.
      EXPECT_EQ(pair.all_reduce(1.0, Reduction::sum), 2.0);
      requests.front().test();
    }
    EXPECT_EQ(group.all_reduce(1.0, Reduction::sum), 4.0);
    for (int i = buckets - 1; i >= 0; --i) {  // wait in another order
      requests[static_cast<std::size_t>(i)].wait();
      const auto values = tensors[static_cast<std::size_t>(i)].span<float>();
      const auto total = static_cast<float>(4 * i + 6);
      EXPECT_EQ(values.front(), total);
      EXPECT_EQ(values[values.size() / 2], total);
      EXPECT_EQ(values.back(), total);
    }
  });
}

TEST(Request, CompletesThroughTest) {
  const Device device = Device::cpu();
  testing::on_ranks(2, [&](const Communicator& group) {
    const Tensor tensor = Tensor::zeros({3000000}, DType::f32, device);
    tensor.data<float>()[2999999] = 2;
    Request request = group.start_all_reduce(tensor, Reduction::sum);
    while (!request.test()) {
    }
    EXPECT_EQ(tensor.data<float>()[2999999], 4);
    EXPECT_TRUE(request.test());
    request.wait();
  });
}

TEST(Request, DestructorWaits) {
  const Device device = Device::cpu();
  testing::on_ranks(2, [&](const Communicator& group) {
    const Tensor tensor = Tensor::zeros({3000000}, DType::f32, device);
    tensor.data<float>()[0] = 1;
    { const Request request = group.start_all_reduce(tensor, Reduction::sum); }
    EXPECT_EQ(tensor.data<float>()[0], 2);
  });
}

// Requires 4 GiB and many seconds: ctest runs it separately (distributed_mesh_large).
TEST(Broadcast, DISABLED_ReachesElementsBeyondTwoToThe31) {
  testing::on_ranks(2, [&](const Communicator& group) {
    const std::int64_t count = (std::int64_t{1} << 31) + 1000;
    const Tensor tensor = Tensor::empty({count}, DType::u8, Device::cpu());
    std::uint8_t* bytes = tensor.data<std::uint8_t>();
    const std::vector<std::int64_t> places = {
        0, (std::int64_t{1} << 31) - 1, std::int64_t{1} << 31, count - 1};
    for (const std::int64_t place : places)
      bytes[place] = group.rank() == 0 ? static_cast<std::uint8_t>(place % 251 + 1) : 0;
    group.broadcast(tensor, 0);
    for (const std::int64_t place : places)
      EXPECT_EQ(bytes[place], static_cast<std::uint8_t>(place % 251 + 1)) << place;
  });
}

}  // namespace
}  // namespace longspan::all_reduce_mesh_test
