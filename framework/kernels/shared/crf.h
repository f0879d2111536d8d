// Linear-chain CRF functions shared by the CPU and CUDA kernels.
#pragma once

#include <cstdint>
#include <limits>

#include "framework/core/host_device.h"
#include "framework/kernels/crf.h"
#include "framework/kernels/element.h"

namespace longspan {

// Extents and pointers of a chain. T is the emissions' element type.
template <typename T>
struct ChainView {
  using A = Accumulator<T>;

  explicit ChainView(const Crf& chain)
      : rows(chain.emissions.shape()[0]),
        time(chain.emissions.shape()[1]),
        tags(chain.emissions.shape()[2]),
        emissions(chain.emissions.data<T>()),
        lengths(chain.lengths.defined() ? chain.lengths.data<std::int64_t>() : nullptr),
        start(chain.start.data<A>()),
        transitions(chain.transitions.data<A>()),
        end(chain.end.data<A>()) {}

  std::int64_t rows, time, tags;
  const T* emissions;
  const std::int64_t* lengths;
  const A *start, *transitions, *end;

  // Clamped to [0, time], so that invalid lengths cause no out-of-bounds reads.
  LONGSPAN_HOST_DEVICE std::int64_t length(std::int64_t row) const {
    const std::int64_t length = lengths == nullptr ? time : lengths[row];
    return length < 0 ? 0 : (length > time ? time : length);
  }
  LONGSPAN_HOST_DEVICE bool has(std::int64_t tag) const { return tag >= 0 && tag < tags; }
};

// Offset subtracted before exponentiation, given the maximum or log-sum-exp `size`. It is 0 if all
// values are -inf, so that they stay -inf and no difference is NaN.
template <typename A>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline A origin(A size) {
  return size == -std::numeric_limits<A>::infinity() ? A{0} : size;
}

// Factor that normalizes probabilities with that sum to 1, which rounding would otherwise change at
// each step. It is 0 if nothing is possible.
template <typename A>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline A factor_to_one(A sum) {
  return sum == 0 ? A{0} : A{1} / sum;
}

// Accumulates the loss of a row step by step: growth minus the step's contribution to the score of
// its tags. The sum stays small, while the partition and the score grow.
struct ChainLoss {
  double loss = 0;
  double partition = 0;
  bool impossible = false;  // no path is allowed

  LONGSPAN_HOST_DEVICE void add(double growth, double score) {
    impossible = impossible || growth == -std::numeric_limits<double>::infinity();
    loss += growth - score;
    partition += growth;
  }
  LONGSPAN_HOST_DEVICE double value() const {
    return impossible ? std::numeric_limits<double>::infinity() : loss;
  }
};

// Contribution of step i of a row to the score of its tags; step `length` is the end. NaN for a tag
// out of range. emissions, tags: those of the row.
template <typename T>
LONGSPAN_HOST_DEVICE double score_of_step(const ChainView<T>& chain,
                                          const T* emissions,
                                          const std::int64_t* tags,
                                          std::int64_t i,
                                          std::int64_t length) {
  const std::int64_t before = i > 0 ? tags[i - 1] : 0, tag = i < length ? tags[i] : 0;
  if (!chain.has(before) || !chain.has(tag)) return std::numeric_limits<double>::quiet_NaN();
  if (i == length) return static_cast<double>(chain.end[before]);
  const auto arrived = i > 0 ? chain.transitions[before * chain.tags + tag] : chain.start[tag];
  return static_cast<double>(arrived) + static_cast<double>(wide(emissions[i * chain.tags + tag]));
}

}  // namespace longspan
