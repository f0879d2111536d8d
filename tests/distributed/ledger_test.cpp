// Messages of the ledger, in one process.
#include "framework/distributed/ledger.h"

#include <gtest/gtest.h>

namespace longspan::ledger_test {
namespace {

constexpr CollectiveSignature sum_of_100 = {
    CollectiveKind::all_reduce, DType::f32, Reduction::sum, -1, 100};
constexpr CollectiveSignature broadcast_of_10 = {
    CollectiveKind::broadcast, DType::f32, Reduction::sum, 0, 10};

// A rank that has entered these collectives.
RankLedger ledger_of(int rank, const std::vector<CollectiveSignature>& signatures) {
  Ledger ledger(17);
  for (const CollectiveSignature& signature : signatures) {
    PendingCollective operation;
    operation.signature = signature;
    operation.place = std::source_location::current();
    ledger.enter(operation);
  }
  return {rank, ledger.records()};
}

TEST(Ledger, ReportsOddRankFirst) {
  const std::vector<CollectiveSignature> common(5, sum_of_100);
  std::vector<CollectiveSignature> odd = common;
  odd[3] = broadcast_of_10;
  const auto message =
      first_mismatch("tensor", {ledger_of(6, common), ledger_of(4, odd), ledger_of(5, common)});
  ASSERT_TRUE(message);
  const std::string place = ledger_of(0, {sum_of_100}).records[0].place.data();
  EXPECT_EQ(*message,
            "collective 4 on \"tensor\": rank 4 called broadcast of 10 f32 from rank 0 at " +
                place + ", ranks 5 and 6 called all_reduce of 100 f32 at " + place);
  EXPECT_TRUE(place.starts_with("tests/distributed/ledger_test.cpp:")) << place;
}

TEST(Ledger, IgnoresRanksThatAreBehind) {
  EXPECT_FALSE(first_mismatch(
      "world",
      {ledger_of(0, {sum_of_100, broadcast_of_10}), ledger_of(1, {sum_of_100}), ledger_of(2, {})}));
}

TEST(Ledger, DetectsMismatchAfterRingWraps) {
  std::vector<CollectiveSignature> common(1000, sum_of_100);
  std::vector<CollectiveSignature> odd = common;
  odd[990] = broadcast_of_10;
  const auto message = first_mismatch("world", {ledger_of(0, common), ledger_of(1, odd)});
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->starts_with("collective 991 on \"world\": rank 1 called broadcast"))
      << *message;
}

TEST(Ledger, ReportsMismatchOlderThanRing) {
  std::vector<CollectiveSignature> common(1000, sum_of_100);
  std::vector<CollectiveSignature> odd = common;
  odd[10] = broadcast_of_10;
  EXPECT_EQ(first_mismatch("world", {ledger_of(0, common), ledger_of(1, odd)}),
            "rank 1 and rank 0 called different collectives before collective 937 on \"world\"");
}

TEST(Ledger, HashCoversEverySignatureField) {
  const auto hash_of = [](const CollectiveSignature& signature) {
    return ledger_of(0, {signature}).records[0].hash;
  };
  std::vector<CollectiveSignature> others(5, sum_of_100);
  others[0].kind = CollectiveKind::all_gather;
  others[1].dtype = DType::f64;
  others[2].reduction = Reduction::maximum;
  others[3].root = 0;
  others[4].elements = 101;
  for (const CollectiveSignature& other : others) EXPECT_NE(hash_of(other), hash_of(sum_of_100));
  EXPECT_EQ(hash_of(sum_of_100), hash_of(sum_of_100));
}

TEST(Ledger, FormatsReductionsAndRanks) {
  CollectiveSignature maximum = sum_of_100;
  maximum.reduction = Reduction::maximum;
  EXPECT_EQ(to_string(maximum), "all_reduce of 100 f32 (maximum)");
  EXPECT_EQ(to_string(CollectiveSignature{}), "barrier");
  EXPECT_EQ(name_ranks({2}), "rank 2");
  EXPECT_EQ(name_ranks({1, 3}), "ranks 1 and 3");
  EXPECT_EQ(name_ranks({1, 2, 3}), "ranks 1, 2 and 3");
}

}  // namespace
}  // namespace longspan::ledger_test
