// Dropout on a tile of probabilities by the global element index.
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/kernels/cpu/attention_problem.h"
#include "framework/kernels/cpu/philox.h"
#include "framework/kernels/dropout.h"

namespace longspan::tile_attention {

template <typename In>
class KeepFactors {
 public:
  using T = Accumulator<In>;

  explicit KeepFactors(const Problem<In>& p) : problem_(p) {
    if (!p.call.dropout || p.call.dropout->rate <= 0) return;
    dropout_ = &*p.call.dropout;
    factor_ = static_cast<T>(1 / (1 - dropout_->rate));
    threshold_ = dropout_threshold(dropout_->rate);
  }

  bool active() const { return dropout_ != nullptr; }

  // factors[j] = 1 / (1 - rate) where element (b, h, query, key + j) is kept, else 0.
  void read(
      std::int64_t b, std::int64_t h, std::int64_t query, std::int64_t key, T* factors) const {
    const auto& d = *dropout_;
    const std::int64_t time = d.time_total > 0 ? d.time_total : problem_.time;
    const std::int64_t keys = d.keys_total > 0 ? d.keys_total : problem_.keys;
    const auto element = [&](std::int64_t head, std::int64_t i, std::int64_t j) {
      const std::int64_t row =
          ((d.batch_begin + b) * d.heads_total + d.head_begin + head) * time + d.time_begin + i;
      return static_cast<std::uint64_t>(row * keys + d.keys_begin + j);
    };
    if (d.fold > 1) {
      const std::int64_t heads = problem_.heads / d.fold;
      const std::int64_t residue = h / heads;
      read_apart(element(h % heads, query * d.fold + residue, key * d.fold + residue), factors);
      return;
    }
    const std::uint64_t first = element(h, query, key);
    // One block more than the tile fills: it may begin within one.
    alignas(64) std::uint32_t words[tile + 4 * lanes<std::uint64_t>];
    philox_blocks(d.random, first / 4, (tile + 4 * lanes<std::uint64_t>) / 4, words);
    const std::uint32_t* word = words + first % 4;
#pragma omp simd
    for (std::int64_t j = 0; j < tile; ++j)
      factors[j] = word[j] >> 8 >= threshold_ ? factor_ : T{0};
  }

 private:
  // Of elements `fold` apart. Every fourth stands in the same word of its block.
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

  const Problem<In>& problem_;
  const AttentionDropout* dropout_ = nullptr;
  T factor_ = 1;
  std::uint32_t threshold_ = 0;
};

}  // namespace longspan::tile_attention
