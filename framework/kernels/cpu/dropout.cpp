#include "framework/kernels/dropout.h"

#include <vector>

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/cpu/philox.h"

namespace longspan {
namespace {

// Processes a local run of consecutive global indices, in pieces whose random words fit in the L1
// cache.
template <bool adds, typename T>
void drop_run(const Random& random,
              std::uint32_t threshold,
              Accumulator<T> factor,
              std::uint64_t index,
              const T* x,
              const T* base,
              T* y,
              std::int64_t count) {
  using A = Accumulator<T>;
  constexpr std::int64_t blocks = 256;
  alignas(64) std::uint32_t words[4 * blocks];
  while (count > 0) {
    const auto skipped = static_cast<std::int64_t>(index % 4);
    const std::int64_t here = std::min(count, 4 * blocks - skipped);
    philox_blocks(random, index / 4, (skipped + here + 3) / 4, words);
    const std::uint32_t* word = words + skipped;
#pragma omp simd
    for (std::int64_t i = 0; i < here; ++i) {
      const A value = word[i] >> 8 >= threshold ? static_cast<A>(x[i]) * factor : A{0};
      if constexpr (adds) {
        T dropped;
        put(dropped, value);
        put(y[i], wide(base[i]) + wide(dropped));
      } else {
        put(y[i], value);
      }
    }
    x += here;
    if constexpr (adds) base += here;
    y += here;
    index += static_cast<std::uint64_t>(here);
    count -= here;
  }
}

template <bool adds, typename T>
void drop(const Dropout& dropout, const Tensor& added = {}) {
  using A = Accumulator<T>;
  const Shape& shape = dropout.x.shape();
  const ShardPlacement& placement = dropout.placement;
  const std::int64_t rows = shape[1];
  const std::int64_t width = shape[2];
  const std::vector<RowPlacement> pieces = placed_rows(placement, rows);
  const std::int64_t* const places =
      dropout.rows.defined() ? dropout.rows.data<std::int64_t>() : nullptr;
  const bool full_rows = placement.inner_begin == 0 && width == placement.inner_total;
  const T* x = dropout.x.data<T>();
  const T* base = adds ? added.data<T>() : nullptr;
  T* y = dropout.y.data<T>();
  const auto threshold = dropout_threshold(dropout.rate);
  const A factor = static_cast<A>(1 / (1 - dropout.rate));
  const Random random = dropout.random;
  // Position of an element, and the number of rows from there on that are consecutive in the
  // unsharded array.
  struct Run {
    std::uint64_t start;
    std::int64_t rows;
  };
  const auto run_at = [=, &placement, &pieces](std::int64_t element) -> Run {
    const std::int64_t inside = element % width;
    if (places != nullptr)
      return {static_cast<std::uint64_t>(places[element / width] * placement.inner_total +
                                         placement.inner_begin + inside),
              1};
    const std::int64_t row = element / width % rows;
    auto piece = pieces.begin();
    while (row >= piece->first + piece->count) ++piece;
    return {placement.index(element / (rows * width), piece->placed + row - piece->first, inside),
            full_rows ? piece->first + piece->count - row : 1};
  };
  for_elements(shape.elements(), [=](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const auto [start, run_rows] = run_at(begin);
      const std::int64_t count = std::min(run_rows * width - begin % width, end - begin);
      drop_run<adds>(random,
                     threshold,
                     factor,
                     start,
                     x + begin,
                     adds ? base + begin : nullptr,
                     y + begin,
                     count);
      begin += count;
    }
  });
}

}  // namespace

void dropout(Cpu, const Dropout& dropout) {
  check(dropout);
  with_floating_type(dropout.x.dtype(), [&]<typename T>(TypeTag<T>) { drop<false, T>(dropout); });
}

void dropout_add(Cpu, const Tensor& base, const Dropout& dropout) {
  check(dropout);
  require_same_shape("dropout_add", base, dropout.y);
  with_floating_type(dropout.x.dtype(),
                     [&]<typename T>(TypeTag<T>) { drop<true, T>(dropout, base); });
}

}  // namespace longspan
