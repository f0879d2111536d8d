// Dropout on a tile of probabilities, by global element index.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "framework/kernels/attention/cpu/attention_problem.h"
#include "framework/kernels/attention/shared/pair_math.h"
#include "framework/kernels/cpu/philox.h"
#include "framework/kernels/dropout.h"

namespace longspan::tile_attention {

template <typename In>
class DropoutMask {
 public:
  using T = Accumulator<In>;

  explicit DropoutMask(const Problem<In>& p) {
    if (!p.call.dropout || p.call.dropout->rate <= 0) return;
    dropout_ = &*p.call.dropout;
    index_.emplace(*dropout_, p.time, p.keys, p.heads);
    factor_ = static_cast<T>(1 / (1 - dropout_->rate));
    threshold_ = dropout_threshold(dropout_->rate);
  }

  bool active() const { return dropout_ != nullptr; }

  // factors[j] = 1 / (1 - rate) if element (b, h, query, key + j) is kept, else 0.
  void read(
      std::int64_t b, std::int64_t h, std::int64_t query, std::int64_t key, T* factors) const {
    const std::uint64_t first = index_->of(b, h, query, key);
    if (dropout_->fold > 1) return read_apart(first, factors);
    // One block more than the tile fills, because it may begin within one.
    alignas(64) std::uint32_t words[tile + 4 * lanes<std::uint64_t>];
    philox_blocks(dropout_->random, first / 4, (tile + 4 * lanes<std::uint64_t>) / 4, words);
    const std::uint32_t* word = words + first % 4;
#pragma omp simd
    for (std::int64_t j = 0; j < tile; ++j)
      factors[j] = word[j] >> 8 >= threshold_ ? factor_ : T{0};
  }

 private:
  // For elements `fold` apart: every fourth uses the same word of its block.
  void read_apart(std::uint64_t first, T* factors) const {
    const auto step = static_cast<std::uint64_t>(dropout_->fold);
    for (std::uint64_t of_four = 0; of_four < 4; ++of_four) {
      const std::uint64_t element = first + of_four * step;
      alignas(64) std::uint32_t words[tile];
      philox_blocks(dropout_->random, element / 4, tile / 4, words, step);
      const std::uint32_t* word = words + element % 4;
      T* to = factors + of_four;
      for (std::int64_t j = 0; j < tile; j += 4)
        to[j] = word[j] >> 8 >= threshold_ ? factor_ : T{0};
    }
  }

  const AttentionDropout* dropout_ = nullptr;
  std::optional<DropoutIndex> index_;
  T factor_ = 1;
  std::uint32_t threshold_ = 0;
};

}  // namespace longspan::tile_attention
