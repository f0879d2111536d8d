#include "framework/kernels/add_dropped.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/element.h"

namespace longspan {
namespace {

// A placement as a kernel takes it: time is cut into few pieces.
struct Place {
  static constexpr int most_pieces = 8;

  Place(const Placement& placement, std::int64_t row_count, std::int64_t row_width)
      : rows(row_count), width(row_width) {
    const std::vector<PlacedRows> placed = placed_rows(placement, rows);
    require(placed.size() <= most_pieces,
            "dropout: the rows of a block come from {} places, at most {} are known here",
            placed.size(),
            most_pieces);
    for (const PlacedRows& piece : placed) pieces[count++] = piece;
    outer_begin = placement.outer_begin;
    middle_begin = placement.middle_begin;
    middle_total = placement.middle_total;
    inner_begin = placement.inner_begin;
    inner_total = placement.inner_total;
  }

  // Of an element of the block its index in the undivided array.
  __device__ std::uint64_t index(std::int64_t i) const {
    const std::int64_t row = i / width % rows;
    std::int64_t placed = row;
    for (int p = 0; p < count; ++p)
      if (row >= pieces[p].first && row < pieces[p].first + pieces[p].count)
        placed = pieces[p].placed + row - pieces[p].first;
    return static_cast<std::uint64_t>(
        ((outer_begin + i / (width * rows)) * middle_total + middle_begin + placed) * inner_total +
        inner_begin + i % width);
  }

  std::int64_t rows, width;
  std::int64_t outer_begin, middle_begin, middle_total, inner_begin, inner_total;
  PlacedRows pieces[most_pieces];
  int count = 0;
};

// Four elements that follow one another: they share the words of a block where they lie in one, and
// their place is looked for once a row, as that divides.
template <bool adds, typename T>
struct DropFour {
  using A = Accumulator<T>;
  Place place;
  Random random;
  std::uint32_t threshold;
  A factor;
  std::int64_t count;
  const T* x;
  const T* base;
  T* y;

  __device__ void operator()(std::int64_t group) const {
    const std::int64_t first = 4 * group;
    const int here = count - first < 4 ? static_cast<int>(count - first) : 4;
    T from[4], onto[4];  // all are read before the first is written
    for (int k = 0; k < 4; ++k) {
      if (k >= here) break;
      from[k] = x[first + k];
      if constexpr (adds) onto[k] = base[first + k];
    }
    auto block = ~std::uint64_t{0};
    std::array<std::uint32_t, 4> words = {};
    std::uint64_t index = 0;
    std::int64_t left = 0;  // of the row
    for (int k = 0; k < 4; ++k, ++index, --left) {
      if (k >= here) break;
      if (left == 0) {
        index = place.index(first + k);
        left = place.width - (first + k) % place.width;
      }
      if (index / 4 != block) {
        block = index / 4;
        words = random.block(block);
      }
      const A value = words[index % 4] >> 8 >= threshold ? wide(from[k]) * factor : A{0};
      if constexpr (adds) {
        T dropped;
        put(dropped, value);
        put(y[first + k], wide(onto[k]) + wide(dropped));
      } else {
        put(y[first + k], value);
      }
    }
  }
};

template <bool adds>
void drop(Cuda cuda, const Dropout& dropout, const Tensor& added = {}) {
  const std::int64_t count = dropout.x.elements();
  const Place place(dropout.placement, dropout.x.shape()[1], dropout.x.shape()[2]);
  with_floating_type(dropout.x.dtype(), [&]<typename T>(TypeTag<T>) {
    for_each_element(cuda,
                     (count + 3) / 4,
                     DropFour<adds, T>{place,
                                       dropout.random,
                                       dropout_threshold(dropout.rate),
                                       static_cast<Accumulator<T>>(1 / (1 - dropout.rate)),
                                       count,
                                       dropout.x.data<T>(),
                                       adds ? added.data<T>() : nullptr,
                                       dropout.y.data<T>()});
  });
}

}  // namespace

void dropout(Cuda cuda, const Dropout& dropout) {
  check(dropout);
  drop<false>(cuda, dropout);
}

void add_dropped(Cuda cuda, const Tensor& base, const Dropout& dropout) {
  check(dropout);
  require_alike("add_dropped", base, dropout.y);
  drop<true>(cuda, dropout, base);
}

}  // namespace longspan
