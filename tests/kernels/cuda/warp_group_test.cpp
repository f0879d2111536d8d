// Products of warp groups on the emulated device: equality with loops, and detection of misuse.
#include "framework/kernels/attention/cuda/hopper/warp_group.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "framework/kernels/attention/cuda/hopper/swizzled_tile.h"
#include "tests/kernels/kernel_testing.h"

namespace longspan::warp_group_test {
namespace {

using namespace longspan::testing;
using tile_attention::Product;
using tile_attention::tile;
using tile_attention::WarpSums;

constexpr int width = 128, elements = tile * width;
using Tile = tile_attention::SwizzledTile<BFloat16, width>;

enum class Fault { none, not_shown, changed, not_ended, read_early };

// products[i, j] = left row i . right row j, and sums[i, c] = the sum over j of products[i, j] and
// feature c of right row j.
__global__ void multiply_tiles(const BFloat16* left,
                               const BFloat16* right,
                               bool by_memory,
                               Fault fault,
                               float* products,
                               float* sums) {
  const Tile own{shared_memory<BFloat16>()}, others{shared_memory<BFloat16>() + elements};
  tile_attention::start_copy_rows(own, left, [&](int i) { return left + i * width; });
  tile_attention::start_copy_rows(others, right, [&](int i) { return right + i * width; });
  tensor_core::end_copy_group();
  tensor_core::wait_for_copies<0>();
  if (fault != Fault::not_shown) Tile::show_copies();
  __syncthreads();
  WarpSums<tile> scores;
  Tile::begin(scores);
  if (by_memory)
    multiply_rows(others, Product{scores, own});
  else
    multiply_rows(others,
                  Product{scores, [&](auto k) { return tile_attention::warp_rows_of(own, k); }});
  if (fault == Fault::changed && threadIdx.x == 0) put(*others.at(0, 0), NAN);
  if (fault == Fault::not_ended) warp_group::wait();
  if (fault != Fault::read_early) Tile::finish(scores);
  scores.each([&](int i, int j, float product, int) { products[i * tile + j] = product; });
  if (fault == Fault::read_early) Tile::finish(scores);
  WarpSums<width> out;
  Tile::begin(out);
  sum_rows(others, Product{out, scores});
  Tile::finish(out);
  out.each([&](int i, int c, float sum, int) { sums[i * width + c] = sum; });
}

// Small integers, whose sums are exact.
std::vector<BFloat16> numbers(int seed) {
  std::vector<BFloat16> values(elements);
  for (int e = 0; e < elements; ++e)
    values[static_cast<std::size_t>(e)] =
        BFloat16(static_cast<float>((e * 7 + e / width * 13 + seed) % 23 == 0 ? e % 5 - 2 : 0));
  return values;
}

struct Tiles {
  std::vector<BFloat16> left = numbers(1);
  std::vector<BFloat16> right = numbers(9);
  std::vector<float> products = std::vector<float>(tile * tile);
  std::vector<float> sums = std::vector<float>(elements);

  void multiply(bool by_memory, Fault fault = Fault::none) {
    launch(backend(),
           {.blocks = 1, .threads = tile_attention::tile_threads, .shared_bytes = 2 * Tile::bytes},
           multiply_tiles,
           left.data(),
           right.data(),
           by_memory,
           fault,
           products.data(),
           sums.data());
  }
  double product(int i, int j) const {
    double sum = 0;
    for (int c = 0; c < width; ++c)
      sum += static_cast<double>(wide(left[static_cast<std::size_t>(i * width + c)])) *
             static_cast<double>(wide(right[static_cast<std::size_t>(j * width + c)]));
    return sum;
  }
};

TEST(WarpGroup, MultipliesTiles) {
  for (const bool by_memory : {false, true}) {
    Tiles tiles;
    tiles.multiply(by_memory);
    double largest = 0;
    for (int i = 0; i < tile; ++i) {
      for (int j = 0; j < tile; ++j) {
        largest = std::max(largest, std::abs(tiles.product(i, j)));
        EXPECT_EQ(tiles.products[static_cast<std::size_t>(i * tile + j)], tiles.product(i, j));
      }
      for (int c = 0; c < width; ++c) {
        double sum = 0;
        for (int j = 0; j < tile; ++j)
          sum += tiles.product(i, j) *
                 static_cast<double>(wide(tiles.right[static_cast<std::size_t>(j * width + c)]));
        EXPECT_EQ(tiles.sums[static_cast<std::size_t>(i * width + c)], sum) << i << ", " << c;
      }
    }
    EXPECT_GT(largest, 0);
    EXPECT_LE(largest, 256);  // exact in bf16
  }
}

TEST(WarpGroup, SumsAreNanBeforeWait) {
  Tiles tiles;
  tiles.multiply(true, Fault::read_early);
  for (const float product : tiles.products) EXPECT_TRUE(std::isnan(product));
}

TEST(WarpGroupDeathTest, ReportsMisuse) {
  Tiles tiles;
  EXPECT_DEATH(tiles.multiply(true, Fault::not_shown), "would not see what a copy brought");
  EXPECT_DEATH(tiles.multiply(true, Fault::changed), "changed before its product was there");
  EXPECT_DEATH(tiles.multiply(false, Fault::not_ended), "did not end");
}

}  // namespace
}  // namespace longspan::warp_group_test
