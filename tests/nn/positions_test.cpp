// The three layouts of sinusoidal positions.
#include "framework/nn/positions.h"

#include "tests/kernels/kernel_testing.h"

namespace longspan {
namespace {

using testing::cpu_device;
using testing::Values;
using testing::values_of;

constexpr SinusoidLayout layouts[] = {
    SinusoidLayout::interleaved, SinusoidLayout::halves, SinusoidLayout::halves_geometric};

Values row(SinusoidLayout layout, std::int64_t position, std::int64_t width) {
  return values_of(sinusoids(layout, position, 1, width, -1, DType::f64, cpu_device()));
}

// Where the sine and the cosine of frequency m stand.
std::pair<std::size_t, std::size_t> columns(SinusoidLayout layout,
                                            std::size_t m,
                                            std::size_t width) {
  return layout == SinusoidLayout::interleaved ? std::pair(2 * m, 2 * m + 1)
                                               : std::pair(m, width / 2 + m);
}

TEST(Sinusoids, APositionFurtherOnIsARotationOfEachPair) {
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

TEST(Sinusoids, HaveTheFrequenciesOfTheirLayout) {
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
  // What the geometric layout is for: the slowest is exactly 1/10000.
  EXPECT_NEAR(row(SinusoidLayout::halves_geometric, 1, width)[3], std::sin(1e-4), 1e-18);
}

TEST(Sinusoids, PositionZeroIsSineZeroAndCosineOne) {
  EXPECT_EQ(row(SinusoidLayout::interleaved, 0, 4), (Values{0, 1, 0, 1}));
  EXPECT_EQ(row(SinusoidLayout::halves, 0, 4), (Values{0, 0, 1, 1}));
  EXPECT_EQ(row(SinusoidLayout::halves_geometric, 0, 4), (Values{0, 0, 1, 1}));
}

TEST(Sinusoids, AnOddWidthEndsWithASineOrAZero) {
  EXPECT_EQ(row(SinusoidLayout::interleaved, 3, 5)[4], std::sin(3 * std::pow(10000.0, -0.8)));
  EXPECT_EQ(row(SinusoidLayout::halves, 3, 5)[4], 0);
  EXPECT_EQ(row(SinusoidLayout::halves_geometric, 3, 5)[4], 0);
  EXPECT_EQ(row(SinusoidLayout::halves, 3, 5)[2], std::cos(3.0));
}

TEST(Sinusoids, SmallestWidths) {
  EXPECT_EQ(row(SinusoidLayout::interleaved, 2, 1), (Values{std::sin(2.0)}));
  EXPECT_EQ(row(SinusoidLayout::halves, 2, 1), (Values{0}));
  EXPECT_EQ(row(SinusoidLayout::halves_geometric, 2, 2), (Values{std::sin(2.0), std::cos(2.0)}));
}

TEST(Sinusoids, RowsCountOnFromTheFirstAndStopAtTheClamp) {
  const Tensor table = sinusoids(SinusoidLayout::halves, 2, 5, 6, 4, DType::f64, cpu_device());
  for (std::int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(values_of(table.slice(i, i + 1)),
              row(SinusoidLayout::halves, std::min<std::int64_t>(2 + i, 4), 6));
  EXPECT_EQ(values_of(sinusoids(SinusoidLayout::halves, 1, 1, 6, 0, DType::f64, cpu_device())),
            row(SinusoidLayout::halves, 0, 6))
      << "a clamp of 0 is a clamp";
}

TEST(Sinusoids, AreRoundedOnceIntoANarrowDtype) {
  const Tensor wide = sinusoids(SinusoidLayout::halves, 0, 9, 6, -1, DType::f64, cpu_device());
  const Tensor narrow = sinusoids(SinusoidLayout::halves, 0, 9, 6, -1, DType::bf16, cpu_device());
  for (std::int64_t i = 0; i < wide.elements(); ++i)
    EXPECT_EQ(static_cast<float>(narrow.data<BFloat16>()[i]),
              static_cast<float>(BFloat16(static_cast<float>(wide.data<double>()[i]))));
}

}  // namespace
}  // namespace longspan
