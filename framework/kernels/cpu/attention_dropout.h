// Dropout on a tile of probabilities by the global element index.
#pragma once

#include <cmath>
#include <cstdint>

#include "framework/kernels/cpu/attention_problem.h"
#include "framework/kernels/cpu/philox.h"

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
    const std::int64_t row =
        ((d.batch_begin + b) * d.heads_total + d.head_begin + h) * time + d.time_begin + query;
    const auto first = static_cast<std::uint64_t>(row * keys + d.keys_begin + key);
    // One block more than the tile fills: it may begin within one.
    alignas(64) std::uint32_t words[tile + 4 * lanes<std::uint64_t>];
    philox_blocks(d.random, first / 4, (tile + 4 * lanes<std::uint64_t>) / 4, words);
    const std::uint32_t* word = words + first % 4;
#pragma omp simd
    for (std::int64_t j = 0; j < tile; ++j)
      factors[j] = word[j] >> 8 >= threshold_ ? factor_ : T{0};
  }

 private:
  const Problem<In>& problem_;
  const AttentionDropout* dropout_ = nullptr;
  T factor_ = 1;
  std::uint32_t threshold_ = 0;
};

}  // namespace longspan::tile_attention
