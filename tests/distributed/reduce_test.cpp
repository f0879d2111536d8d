// Reductions and shared segments within one process, and communicators of size 1.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "framework/distributed/process_mesh.h"
#include "framework/distributed/session.h"
#include "framework/distributed/shared_memory.h"
#include "framework/distributed/transport.h"

namespace longspan::reduce_test {
namespace {

template <typename T>
std::vector<T> reduce(Reduction reduction, const std::vector<std::vector<T>>& sources) {
  std::vector<const std::byte*> bytes;
  for (const auto& source : sources)
    bytes.push_back(reinterpret_cast<const std::byte*>(source.data()));
  std::vector<T> result(sources[0].size());
  std::byte* output = reinterpret_cast<std::byte*>(result.data());
  reduce_in_order(DTypeOf<T>::value,
                  reduction,
                  bytes,
                  std::span(&output, 1),
                  static_cast<std::int64_t>(result.size()));
  return result;
}

TEST(Reduce, AddsInRankOrder) {
  // In f32, (1e8 + 1) - 1e8 is 0 and 1 + (1e8 - 1e8) is 1.
  EXPECT_EQ(reduce<float>(Reduction::sum, {{1e8F}, {1.0F}, {-1e8F}}), std::vector({0.0F}));
  EXPECT_EQ(reduce<float>(Reduction::sum, {{1e8F}, {-1e8F}, {1.0F}}), std::vector({1.0F}));
}

TEST(Reduce, PropagatesNanFromAnyRank) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Reduction reduction : {Reduction::sum, Reduction::maximum, Reduction::minimum})
    for (std::size_t rank = 0; rank < 3; ++rank) {
      std::vector<std::vector<float>> sources(3, std::vector<float>(2, 1.0F));
      sources[rank][1] = nan;
      const std::vector<float> result = reduce(reduction, sources);
      EXPECT_FALSE(std::isnan(result[0]));
      EXPECT_TRUE(std::isnan(result[1]));
    }
}

TEST(Reduce, IntegersWrapAround) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(reduce<std::int64_t>(Reduction::sum, {{most}, {1}}),
            std::vector({std::numeric_limits<std::int64_t>::min()}));
  EXPECT_EQ(reduce<std::uint8_t>(Reduction::sum, {{200}, {100}}), std::vector<std::uint8_t>({44}));
}

TEST(SharedSegment, OpensOnlyByExactAddress) {
  const auto segment = SharedSegment::create();
  ASSERT_NE(segment, nullptr);
  SharedSegment::Address address = segment->address();
  const auto other = SharedSegment::open(address);
  ASSERT_NE(other, nullptr);
  segment->slot(3)[5] = std::byte{42};
  EXPECT_EQ(other->slot(3)[5], std::byte{42});
  ++address.token;
  EXPECT_EQ(SharedSegment::open(address), nullptr);
  address.token = segment->address().token;
  address.descriptor = 0;  // an unrelated descriptor
  EXPECT_EQ(SharedSegment::open(address), nullptr);
  address.process = 1 << 30;
  EXPECT_EQ(SharedSegment::open(address), nullptr);
  segment->close_descriptor();
  EXPECT_EQ(SharedSegment::open(segment->address()), nullptr);
}

TEST(Communicator, SingleRankCollectivesCopyInput) {
  const Communicator one;
  EXPECT_EQ(one.rank(), 0);
  EXPECT_EQ(one.size(), 1);
  const Tensor tensor = Tensor::zeros({4}, DType::f32, Device::cpu());
  tensor.data<float>()[1] = 2;
  one.all_reduce(tensor, Reduction::sum);
  const Tensor other = Tensor::zeros({4}, DType::f32, Device::cpu());
  one.all_gather(tensor, other);
  EXPECT_EQ(other.data<float>()[1], 2);
  other.zero();
  one.reduce_scatter(tensor, other);
  EXPECT_EQ(other.data<float>()[1], 2);
  other.zero();
  one.all_to_all(tensor, other);
  EXPECT_EQ(other.data<float>()[1], 2);
  other.zero();
  one.exchange(tensor, 0, other, 0);
  EXPECT_EQ(other.data<float>()[1], 2);
  one.broadcast(tensor, 0);
  one.barrier();
  one.check_ledger();
  EXPECT_EQ(one.broadcast("text", 0), "text");
  EXPECT_EQ(one.all_gather("text"), std::vector<std::string>({"text"}));
  EXPECT_EQ(one.all_reduce(2.5, Reduction::minimum), 2.5);
  EXPECT_EQ(one.split(3, 1, "part").size(), 1);
  Request request = one.start_all_reduce(tensor, Reduction::sum);
  EXPECT_TRUE(request.test());
  request.wait();
  EXPECT_THROW(one.broadcast(tensor, 1), Failure);
}

TEST(Session, StandaloneProcessHasOneRank) {
  const Session session;
  EXPECT_EQ(session.world().size(), 1);
  EXPECT_EQ(session.local_rank(), 0);
  EXPECT_EQ(session.local_size(), 1);
  EXPECT_TRUE(session.claim_error_report());
  const ProcessMesh mesh(session.world(), {});
  EXPECT_EQ(mesh.replicas.size(), 1);
  EXPECT_THROW(ProcessMesh(session.world(), {.data = 2}), ConfigurationError);
  EXPECT_EXIT(session.abort(5), ::testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace longspan::reduce_test
