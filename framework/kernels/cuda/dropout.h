// Dropout of four adjacent elements.
#pragma once

#include "framework/kernels/cuda/row_io.h"
#include "framework/kernels/dropout.h"

namespace longspan {

// ShardPlacement as a kernel argument, with time split into a bounded number of pieces.
struct Place {
  static constexpr int max_pieces = 8;

  Place(const ShardPlacement& placement, std::int64_t row_count, const Tensor& row_positions)
      : rows(row_count),
        places(row_positions.defined() ? row_positions.data<std::int64_t>() : nullptr) {
    const std::vector<RowPlacement> placed = placed_rows(placement, rows);
    require(placed.size() <= max_pieces,
            "dropout: expected the rows of a block at no more than {} positions, found {}",
            max_pieces,
            placed.size());
    for (const RowPlacement& piece : placed) pieces[count++] = piece;
    outer_begin = placement.outer_begin;
    middle_begin = placement.middle_begin;
    middle_total = placement.middle_total;
    inner_begin = placement.inner_begin;
    inner_total = placement.inner_total;
  }

  // Index of the first element of a row of [outer rows, width] in the unsharded array. The
  // following elements have consecutive indices.
  __device__ std::uint64_t index(std::int64_t row) const {
    if (places != nullptr)
      return static_cast<std::uint64_t>(places[row] * inner_total + inner_begin);
    const std::int64_t outer = row / rows, middle = row % rows;
    std::int64_t placed = middle;
    for (int p = 0; p < count; ++p)
      if (middle >= pieces[p].first && middle < pieces[p].first + pieces[p].count)
        placed = pieces[p].placed + middle - pieces[p].first;
    return static_cast<std::uint64_t>(
        ((outer_begin + outer) * middle_total + middle_begin + placed) * inner_total + inner_begin);
  }

  std::int64_t rows;
  const std::int64_t* places;  // Dropout::rows, or nullptr
  std::int64_t outer_begin, middle_begin, middle_total, inner_begin, inner_total;
  RowPlacement pieces[max_pieces];
  int count = 0;
};

// Applies dropout to groups of four elements of [outer rows, width].
template <typename T>
struct DropoutFunctor {
  using A = Accumulator<T>;

  explicit DropoutFunctor(const Dropout& dropout)
      : place_(dropout.placement, dropout.x.shape()[1], dropout.rows),
        random_(dropout.random),
        threshold_(dropout_threshold(dropout.rate)),
        factor_(static_cast<A>(1 / (1 - dropout.rate))) {}

  __device__ Vec4<T> operator()(std::int64_t row, std::int64_t first, const Vec4<T>& from) const {
    const std::uint64_t index = place_.index(row) + static_cast<std::uint64_t>(first);
    const auto skipped = static_cast<int>(index % 4);
    // All four use the same block of random words if they lie in one.
    const auto words = random_.block(index / 4);
    const auto after = skipped == 0 ? words : random_.block(index / 4 + 1);
    Vec4<T> to;
    for (int k = 0; k < 4; ++k) {
      const int i = skipped + k;
      const std::uint32_t word = i < 4 ? chosen(words, i) : chosen(after, i - 4);
      put(to.at[k], word >> 8 >= threshold_ ? wide(from.at[k]) * factor_ : A{0});
    }
    return to;
  }

 private:
  // A dynamic index would force the words into local memory.
  __device__ static std::uint32_t chosen(const std::array<std::uint32_t, 4>& words, int i) {
    const std::uint32_t low = i == 0 ? words[0] : words[1], high = i == 2 ? words[2] : words[3];
    return i < 2 ? low : high;
  }

  Place place_;
  Random random_;
  std::uint32_t threshold_;
  A factor_;
};

}  // namespace longspan
