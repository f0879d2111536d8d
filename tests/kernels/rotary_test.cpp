// Rotary position embeddings.
#include "framework/kernels/rotary.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan::rotary_test {
namespace {

using namespace longspan::testing;

constexpr RotaryLayout forms[] = {RotaryLayout::halves, RotaryLayout::neighbors};

template <typename A>
Tensor table_of(const Values& frequencies,
                std::int64_t first,
                std::int64_t positions,
                double factor = 1) {
  const auto pairs = std::ssize(frequencies);
  const Tensor out = poisoned<A>({positions, 2 * pairs});
  fill_cos_sin_table(backend(),
                     {.first = first,
                      .factor = factor,
                      .frequencies = tensor_of<double>(frequencies, {pairs}),
                      .out = out});
  return out;
}

template <typename T>
Tensor rotated(RotaryLayout pairs, const Tensor& x, const Tensor& table, bool back = false) {
  const Tensor y = poisoned<T>(x.shape());
  apply_rotary(backend(), {.pairs = pairs, .inverse = back, .x = x, .table = table, .y = y});
  return y;
}

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(CosSinTable, ContainsCosinesThenSines) {
  const Values frequencies = {1, 0.25, 1e-3};
  const Values table = values_of(table_of<double>(frequencies, 1000, 700, 1.5));
  for (const std::size_t row : {0u, 1u, 699u})
    for (std::size_t pair = 0; pair < 3; ++pair) {
      const double angle = (1000 + static_cast<double>(row)) * frequencies[pair];
      EXPECT_NEAR(table[6 * row + pair], 1.5 * std::cos(angle), 1e-12);
      EXPECT_NEAR(table[6 * row + 3 + pair], 1.5 * std::sin(angle), 1e-12);
    }
}

// The angle of a large position does not come from a rounded product.
TEST(CosSinTable, ComputesLargePositionsInDouble) {
  const Values table = values_of(table_of<float>({0.7}, 123456789, 1));
  EXPECT_NEAR(table[0], std::cos(123456789 * 0.7), 1e-6);
  EXPECT_NEAR(table[1], std::sin(123456789 * 0.7), 1e-6);
}

template <typename T>
class RotaryTest : public ::testing::Test {};
TYPED_TEST_SUITE(RotaryTest, FloatingTypes);

TYPED_TEST(RotaryTest, RotatesPairsOfEachHeadAndKeepsTheRest) {
  using A = Accumulator<TypeParam>;
  constexpr std::int64_t batch = 2, time = 5, heads = 3, dim = 10;
  for (const std::int64_t pairs : {1, 3, 5})
    for (const RotaryLayout form : forms) {
      const Values x = normal_values<TypeParam>(batch * time * heads * dim, 1);
      const Values frequencies = normal_values<double>(pairs, 2);
      Values expected = x;
      for (std::int64_t row = 0; row < batch * time * heads; ++row)
        for (std::int64_t pair = 0; pair < pairs; ++pair) {
          const bool halves = form == RotaryLayout::halves;
          const auto u = static_cast<std::size_t>(row * dim + (halves ? pair : 2 * pair));
          const auto v =
              static_cast<std::size_t>(row * dim + (halves ? pair + pairs : 2 * pair + 1));
          const double angle = static_cast<double>(7 + row / heads % time) *
                               frequencies[static_cast<std::size_t>(pair)];
          expected[u] = x[u] * std::cos(angle) - x[v] * std::sin(angle);
          expected[v] = x[v] * std::cos(angle) + x[u] * std::sin(angle);
        }
      const Tensor from = tensor_of<TypeParam>(x, {batch, time, heads, dim});
      const Tensor table = table_of<A>(frequencies, 7, time);
      const Tensor y = rotated<TypeParam>(form, from, table);
      expect_close(values_of(y), expected, tolerance<TypeParam>());
      expect_close(
          values_of(rotated<TypeParam>(form, y, table, true)), x, 2 * tolerance<TypeParam>());
      // In place.
      apply_rotary(backend(), {.pairs = form, .x = from, .table = table, .y = from});
      EXPECT_TRUE(same_bits(from, y));
    }
}

TYPED_TEST(RotaryTest, ResultDoesNotDependOnRowCount) {
  using A = Accumulator<TypeParam>;
  constexpr std::int64_t heads = 2, dim = 64;
  const std::int64_t time = emulated ? 40 : 700;
  const Values x = normal_values<TypeParam>(time * heads * dim, 1);
  const Tensor from = tensor_of<TypeParam>(x, {1, time, heads, dim});
  const Values frequencies = normal_values<double>(24, 2);
  const Tensor all =
      rotated<TypeParam>(RotaryLayout::halves, from, table_of<A>(frequencies, 0, time));
  for (const std::int64_t position : {std::int64_t{0}, time / 2, time - 1})
    EXPECT_TRUE(same_bits(
        all.reshape({time, heads, dim}).slice(position, position + 1),
        rotated<TypeParam>(RotaryLayout::halves,
                           from.reshape({time, 1, heads, dim}).slice(position, position + 1),
                           table_of<A>(frequencies, position, 1))));
  EXPECT_EQ(rotated<TypeParam>(RotaryLayout::halves,
                               tensor_of<TypeParam>({}, {0, time, heads, dim}),
                               table_of<A>(frequencies, 0, time))
                .elements(),
            0);
}

TEST(Rotary, ScoresDependOnlyOnRelativePosition) {
  const Values query = normal_values<double>(8, 1), key = normal_values<double>(8, 2);
  const Values frequencies = {1, 0.1, 0.01, 0.001};
  for (const RotaryLayout form : forms) {
    const auto at = [&](const Values& x, std::int64_t position) {
      return values_of(rotated<double>(
          form, tensor_of<double>(x, {1, 1, 1, 8}), table_of<double>(frequencies, position, 1)));
    };
    EXPECT_NEAR(dot(at(query, 9), at(key, 4)), dot(at(query, 1005), at(key, 1000)), 1e-12);
    EXPECT_GT(std::abs(dot(at(query, 9), at(key, 4)) - dot(at(query, 9), at(key, 5))), 1e-3);
  }
}

TEST(Rotary, RejectsMismatchedTables) {
  const Tensor x = poisoned<double>({1, 4, 1, 6});
  for (const Tensor& table : {poisoned<double>({3, 6}),
                              poisoned<double>({4, 8}),
                              poisoned<double>({4, 5}),
                              poisoned<float>({4, 6})})
    EXPECT_THROW(apply_rotary(backend(), {.x = x, .table = table, .y = x}), Failure);
}

}  // namespace
}  // namespace longspan::rotary_test
