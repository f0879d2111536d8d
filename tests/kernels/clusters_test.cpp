#include "framework/kernels/attention/clusters.h"

#include <algorithm>
#include <numeric>

#include "tests/kernels/kernel_testing.h"

namespace longspan::clusters_test {
namespace {

using namespace longspan::testing;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t batch = 2, heads = 2, clusters = 3;

Ids ids_in(const Tensor& tensor) {
  const Tensor here = tensor.to_host();
  const auto span = here.span<std::int32_t>();
  return {span.begin(), span.end()};
}

Tensor lengths_of(const std::vector<std::int64_t>& lengths) {
  return Tensor::from<std::int64_t>(lengths, {std::ssize(lengths)}, backend_device());
}

// Few distinct values, so that many are equal.
template <typename T>
Values scores_of(std::int64_t time) {
  Values scores = normal_values<T>(batch * heads * clusters * time, 3, 2);
  for (double& score : scores) score = std::round(score);
  return scores;
}

template <typename T>
class ClustersTest : public ::testing::Test {};
TYPED_TEST_SUITE(ClustersTest, FloatingTypes);

TYPED_TEST(ClustersTest, MembersHaveHighestScoresAndTiesPreferEarlier) {
  using A = Accumulator<TypeParam>;
  for (const std::int64_t time : {1, 7, 300})
    for (const std::int64_t width : {std::int64_t{1}, std::int64_t{3}, time, time + 2})
      for (const bool padded : {false, true}) {
        const std::vector<std::int64_t> lengths = {time / 2, time + 5};
        const Values scores = scores_of<A>(time);
        ClusterMembers members = {
            .scores = tensor_of<A>(scores, {batch, heads, clusters, time}),
            .position =
                Tensor::empty({batch, clusters, heads, width}, DType::i32, backend_device())};
        if (padded) members.length = lengths_of(lengths);
        cluster_members(backend(), members);
        Ids expected;
        for (std::int64_t b = 0; b < batch; ++b)
          for (std::int64_t c = 0; c < clusters; ++c)
            for (std::int64_t h = 0; h < heads; ++h) {
              const double* row = scores.data() + ((b * heads + h) * clusters + c) * time;
              Ids order(static_cast<std::size_t>(
                  padded ? std::min(time, lengths[static_cast<std::size_t>(b)]) : time));
              std::iota(order.begin(), order.end(), 0);
              std::ranges::stable_sort(order, [&](auto i, auto j) { return row[i] > row[j]; });
              order.resize(static_cast<std::size_t>(std::min(std::ssize(order), width)));
              std::ranges::sort(order);
              order.resize(static_cast<std::size_t>(width), -1);
              expected.insert(expected.end(), order.begin(), order.end());
            }
        EXPECT_EQ(ids_in(members.position), expected) << time << ", " << width;
      }
}

TYPED_TEST(ClustersTest, NearestPrefersFirstOfTiesAndSumsItsTokens) {
  using A = Accumulator<TypeParam>;
  constexpr std::int64_t time = 50, dim = 3;
  const std::vector<std::int64_t> lengths = {20, time};
  const Values scores = scores_of<A>(time);
  const NearestCluster nearest = {
      .scores = tensor_of<A>(scores, {batch, heads, clusters, time}),
      .cluster = Tensor::empty({batch, heads, 1, time}, DType::i32, backend_device()),
      .length = lengths_of(lengths)};
  nearest_cluster(backend(), nearest);
  const Values x = normal_values<TypeParam>(batch * time * heads * dim, 1);
  const Values before = normal_values<A>(heads * clusters * dim, 2);
  Ids expected;
  Values sums = before, counts(heads * clusters, 1);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t t = 0; t < time; ++t) {
        const auto score = [&](std::int64_t c) {
          return scores[static_cast<std::size_t>(((b * heads + h) * clusters + c) * time + t)];
        };
        std::int64_t best = 0;
        for (std::int64_t c = 1; c < clusters; ++c)
          if (score(c) > score(best)) best = c;
        if (t >= lengths[static_cast<std::size_t>(b)]) best = clusters;
        expected.push_back(static_cast<std::int32_t>(best));
        if (best == clusters) continue;
        counts[static_cast<std::size_t>(h * clusters + best)] += 1;
        for (std::int64_t d = 0; d < dim; ++d)
          sums[static_cast<std::size_t>((h * clusters + best) * dim + d)] +=
              x[static_cast<std::size_t>(((b * time + t) * heads + h) * dim + d)];
      }
  EXPECT_EQ(ids_in(nearest.cluster), expected);
  const ClusterSums add = {.x = tensor_of<TypeParam>(x, {batch, time, heads, dim}),
                           .cluster = nearest.cluster,
                           .sums = tensor_of<A>(before, {heads, clusters, dim}),
                           .counts = tensor_of<A>(Values(heads * clusters, 1), {heads, clusters})};
  add_cluster_sums(backend(), add);
  expect_close(values_of(add.sums), sums, 50 * tolerance<A>());
  EXPECT_EQ(values_of(add.counts), counts);
}

TYPED_TEST(ClustersTest, CentroidsFollowTokensAndStayWithoutAny) {
  using A = Accumulator<TypeParam>;
  for (const bool unit : {false, true}) {
    UpdateCentroids move = {.centroids = tensor_of<A>({0.6, 0.8, 1, 0}, {1, 2, 2}),
                            .sums = tensor_of<A>({30, -40, 0, 0}, {1, 2, 2}),
                            .counts = tensor_of<A>({7, 0}, {1, 2}),
                            .decay = 0.75,
                            .unit = unit};
    update_centroids(backend(), move);
    Values expected = {0.75 * 0.6 + 0.25 * 0.6, 0.75 * 0.8 - 0.25 * 0.8, 1, 0};
    const double length = std::hypot(expected[0], expected[1]);
    for (std::size_t i = 0; unit && i < 2; ++i) expected[i] /= length;
    expect_close(values_of(move.centroids), expected, tolerance<A>());
  }
}

TYPED_TEST(ClustersTest, DividesRowsByCountAndReturnsZeroForEmpty) {
  using A = Accumulator<TypeParam>;
  const DivideRows divide = {.x = tensor_of<TypeParam>({2, 4, nan, nan, 3, 6}, {3, 2}),
                             .count = tensor_of<A>({2, 0, 1}, {3}),
                             .floor = 1,
                             .y = poisoned<A>({3, 2})};
  divide_rows(backend(), divide);
  expect_close(values_of(divide.y), {2.0 / 3, 4.0 / 3, 0, 0, 1.5, 3}, tolerance<A>());
}

}  // namespace
}  // namespace longspan::clusters_test
