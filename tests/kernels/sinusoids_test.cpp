// The three layouts of sinusoidal positions.
#include "framework/kernels/rotary.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::sinusoids_test {
namespace {

using testing::backend;
using testing::backend_device;
using testing::Values;
using testing::values_of;

constexpr SinusoidLayout layouts[] = {
    SinusoidLayout::interleaved, SinusoidLayout::halves, SinusoidLayout::halves_geometric};

Tensor table(SinusoidLayout layout,
             const Shape& shape,
             std::int64_t first,
             std::int64_t clamp = -1,
             DType dtype = DType::f64) {
  const Tensor out = Tensor::empty(shape, dtype, backend_device());
  fill_sinusoids(backend(), {.layout = layout, .first = first, .clamp = clamp, .out = out});
  return out;
}

Values row(SinusoidLayout layout, std::int64_t position, std::int64_t width) {
  return values_of(table(layout, {1, width}, position));
}

// The columns of the sine and the cosine of frequency m.
std::pair<std::size_t, std::size_t> columns(SinusoidLayout layout,
                                            std::size_t m,
                                            std::size_t width) {
  return layout == SinusoidLayout::interleaved ? std::pair(2 * m, 2 * m + 1)
                                               : std::pair(m, width / 2 + m);
}

TEST(Sinusoids, OffsetsRotateEachPair) {
  for (const SinusoidLayout layout : layouts) {
    constexpr std::size_t width = 8;
    const Values here = row(layout, 11, width);
    const Values step = row(layout, 5, width);
    const Values there = row(layout, 16, width);
    for (std::size_t m = 0; m < width / 2; ++m) {
      const auto [sine, cosine] = columns(layout, m, width);
      EXPECT_NEAR(there[sine], here[sine] * step[cosine] + here[cosine] * step[sine], 1e-14);
      EXPECT_NEAR(there[cosine], here[cosine] * step[cosine] - here[sine] * step[sine], 1e-14);
    }
  }
}

TEST(Sinusoids, FrequenciesMatchLayout) {
  constexpr std::size_t width = 8;
  for (const SinusoidLayout layout : layouts) {
    const Values one = row(layout, 1, width);
    for (std::size_t m = 0; m < width / 2; ++m) {
      const double exponent = layout == SinusoidLayout::halves_geometric
                                  ? static_cast<double>(m) / 3
                                  : 2 * static_cast<double>(m) / 8;
      const double frequency = std::pow(10000.0, -exponent);
      const auto [sine, cosine] = columns(layout, m, width);
      EXPECT_NEAR(one[sine], std::sin(frequency), 1e-15);
      EXPECT_NEAR(one[cosine], std::cos(frequency), 1e-15);
    }
  }
  // The slowest frequency of the geometric layout is exactly 1/10000.
  EXPECT_NEAR(row(SinusoidLayout::halves_geometric, 1, width)[3], std::sin(1e-4), 1e-18);
}

TEST(Sinusoids, PositionZeroIsSineZeroAndCosineOne) {
  EXPECT_EQ(row(SinusoidLayout::interleaved, 0, 4), (Values{0, 1, 0, 1}));
  EXPECT_EQ(row(SinusoidLayout::halves, 0, 4), (Values{0, 0, 1, 1}));
  EXPECT_EQ(row(SinusoidLayout::halves_geometric, 0, 4), (Values{0, 0, 1, 1}));
}

TEST(Sinusoids, OddWidthEndsWithZero) {
  for (const SinusoidLayout layout : layouts) EXPECT_EQ(row(layout, 3, 5)[4], 0);
  EXPECT_NEAR(
      row(SinusoidLayout::interleaved, 3, 5)[2], std::sin(3 * std::pow(10000.0, -0.4)), 1e-15);
  EXPECT_NEAR(row(SinusoidLayout::halves, 3, 5)[2], std::cos(3.0), 1e-15);
}

TEST(Sinusoids, SupportsSmallestWidths) {
  EXPECT_EQ(row(SinusoidLayout::interleaved, 2, 1), (Values{0}));
  EXPECT_EQ(row(SinusoidLayout::halves, 2, 1), (Values{0}));
  const Values two = row(SinusoidLayout::halves_geometric, 2, 2);
  EXPECT_NEAR(two[0], std::sin(2.0), 1e-15);
  EXPECT_NEAR(two[1], std::cos(2.0), 1e-15);
}

TEST(Sinusoids, RowsStartAtFirstAndStopAtClamp) {
  const Tensor clamped = table(SinusoidLayout::halves, {5, 6}, 2, 4);
  for (std::int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(values_of(clamped.slice(i, i + 1)),
              row(SinusoidLayout::halves, std::min<std::int64_t>(2 + i, 4), 6));
  EXPECT_EQ(values_of(table(SinusoidLayout::halves, {1, 6}, 1, 0)),
            row(SinusoidLayout::halves, 0, 6))
      << "a clamp of 0 is a clamp";
}

TEST(Sinusoids, RowsDoNotDependOnRowCount) {
  const Tensor many = table(SinusoidLayout::interleaved, {700, 66}, 5);
  for (const std::int64_t i : {0, 1, 349, 350, 699})
    EXPECT_EQ(values_of(many.slice(i, i + 1)), row(SinusoidLayout::interleaved, 5 + i, 66)) << i;
}

TEST(Sinusoids, RoundsOnceToNarrowDType) {
  const Values wide = values_of(table(SinusoidLayout::halves, {9, 6}, 0));
  const Values narrow = values_of(table(SinusoidLayout::halves, {9, 6}, 0, -1, DType::bf16));
  for (std::size_t i = 0; i < wide.size(); ++i)
    EXPECT_EQ(narrow[i], testing::rounded<BFloat16>(wide[i]));
}

}  // namespace
}  // namespace longspan::sinusoids_test
