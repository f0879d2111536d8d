// Learned biases by relative position in a tile: adds them to scores, and computes their gradients.
#pragma once

#include <algorithm>
#include <cstdint>

#include "framework/kernels/attention/cpu/relative_tables.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

template <typename In>
class DistanceBiasTiles {
 public:
  using T = Accumulator<In>;

  explicit DistanceBiasTiles(const Problem<In>& p) {
    const Tensor& bias = p.call.distance_bias;
    if (!bias.defined()) return;
    all_ = bias.data<T>();
    distances_ = bias.shape()[1];
    unscaled_ = 1 / p.scale;
  }
  bool any() const { return all_ != nullptr; }

  // scores: [rows, tile], before scaling; entries of masked pairs are arbitrary.
  void add(std::int64_t h, const TileView& view, T* scores) const {
    T line[band];
    for (std::int64_t c = 0; c < band; ++c)
      line[c] = unscaled_ * all_[h * distances_ + place(view, c)];
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      T* row = scores + r * tile;
      const T* of_row = line + tile - 1 - r;
#pragma omp simd
      for (std::int64_t j = 0; j < tile; ++j) row[j] += of_row[j];
    }
  }

  // to: [distances], of one head. dscores: [rows, skew_step], starting after the margin.
  void differentiate(const TileView& view, const T* dscores, T* to) const {
    alignas(64) T sums[2 * tile];
    sum_band_columns(view.rows(), dscores, sums);
    for (std::int64_t c = 0; c < band; ++c) to[place(view, c)] += sums[c];
  }

 private:
  // Index of the relative position of column c of the band, clipped to the table.
  std::int64_t place(const TileView& view, std::int64_t c) const {
    const std::int64_t after = c - (tile - 1) - view.origin;  // the key after the query
    return std::clamp(after + distances_ / 2, std::int64_t{0}, distances_ - 1);
  }

  const T* all_ = nullptr;  // [heads, distances]
  std::int64_t distances_ = 0;
  T unscaled_ = 1;
};

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
