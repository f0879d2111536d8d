#include "framework/kernels/attention/cuda/tile.h"
#include "framework/kernels/attention/hash_buckets.h"
#include "framework/kernels/cuda/sort.h"

namespace longspan {
namespace {

using namespace tile_attention;

// Running argmax of [y; -y] as the elements of y arrive; ties go to the first.
template <typename A>
struct LargestDirection {
  static constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max();
  A size = 0;
  std::int32_t index = none;

  __device__ void see(A y, std::int32_t c, std::int32_t count) {
    const A absolute = std::abs(y);
    take(absolute, y == absolute ? c : c + count);
  }
  __device__ void take(A other, std::int32_t candidate) {
    // Rejects NaN.
    if (!(other > size || (other == size && candidate < index))) return;
    size = other;
    index = candidate;
  }
  // Merges with the adjacent thread's result; 0 if all elements are NaN.
  __device__ std::int32_t of_both() {
    const A other = __shfl_xor_sync(all_lanes, size, 1);
    take(other, __shfl_xor_sync(all_lanes, index, 1));
    return index == none ? 0 : index;
  }
};

// Extents and pointers of a hash.
template <typename T>
struct HashCall {
  using A = Accumulator<T>;
  std::int64_t time, heads, rounds;
  int dim, columns;
  std::int32_t first, half1, half2;  // buckets of the first factor, directions of both
  const T* x;
  const A* rotations;
  std::int32_t* buckets;
};

template <typename A>
constexpr std::size_t hash_bytes = (2 * tile * depth_step + tile * tile_step) * sizeof(A);

// A block has 64 positions of a batch row, head and round; two adjacent threads share a position.
template <typename T>
__global__ void hash_positions(HashCall<T> hash) {
  using A = Accumulator<T>;
  A* const stage = shared_memory<A>();
  A* const products = stage + 2 * tile * depth_step;
  const std::int64_t tiles = (hash.time + tile - 1) / tile;
  const std::int64_t begin = blockIdx.x % tiles * tile, row = blockIdx.x / tiles;
  const std::int64_t round = row % hash.rounds, h = row / hash.rounds % hash.heads;
  const std::int64_t b = row / (hash.rounds * hash.heads);
  const int i = static_cast<int>(threadIdx.x) / 2;
  LargestDirection<A> low, high;
  for (int first = 0; first < hash.columns; first += tile) {
    Sums<A> sums;
    add_row_products(
        sums,
        hash.dim,
        stage,
        [&](int r, int c) {
          if (begin + r >= hash.time) return A{0};
          return wide(hash.x[((b * hash.time + begin + r) * hash.heads + h) * hash.dim + c]);
        },
        [&](int j, int c) {
          if (first + j >= hash.columns) return A{0};
          return hash
              .rotations[((h * hash.dim + c) * hash.rounds + round) * hash.columns + first + j];
        });
    sums.write(products);
    __syncthreads();
    for (int j = static_cast<int>(threadIdx.x) % 2; j < tile && first + j < hash.columns; j += 2) {
      const std::int32_t c = first + j;
      const A y = products[i * tile_step + j];
      if (c < hash.half1)
        low.see(y, c, hash.half1);
      else
        high.see(y, c - hash.half1, hash.half2);
    }
  }
  const std::int32_t of_first = low.of_both(), of_second = high.of_both();
  if (threadIdx.x % 2 == 0 && begin + i < hash.time)
    hash.buckets[row * hash.time + begin + i] = of_first + hash.first * of_second;
}

struct MarkPadding {
  std::int64_t time;
  std::int64_t rows;  // of one batch row
  std::int32_t mark;
  const std::uint8_t* padding;
  const std::int64_t* length;
  std::int32_t* buckets;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t b = i / (time * rows), t = i % time;
    if ((padding != nullptr && padding[b * time + t] != 0) || (length != nullptr && t >= length[b]))
      buckets[i] = mark;
  }
};

// Keys of consecutive rows, in each its buckets, so that one sort handles all rows.
struct SortKey {
  std::int64_t time;
  std::int32_t buckets;
  const std::int32_t* bucket;
  std::int32_t* key;

  __device__ void operator()(std::int64_t i) const {
    const bool known = bucket[i] >= 0 && bucket[i] < buckets;
    key[i] = static_cast<std::int32_t>(i / time) * (buckets + 1) + (known ? bucket[i] : buckets);
  }
};

// Converts indices among all rows to indices within each row.
struct PlaceSorted {
  std::int64_t time;
  std::int32_t buckets;
  const std::int32_t* key;   // sorted
  const std::int32_t* from;  // original index
  std::int32_t* order;
  std::int32_t* place;

  __device__ void operator()(std::int64_t i) const {
    const auto first = static_cast<std::int32_t>(i / time * time);
    const bool padding = key[i] % (buckets + 1) == buckets;
    order[i] = padding ? -1 : from[i] - first;
    place[from[i]] = padding ? -1 : static_cast<std::int32_t>(i) - first;
  }
};

}  // namespace

void hash_buckets(Cuda cuda, const BucketHash& hash) {
  check(hash);
  const Shape& x = hash.x.shape();
  const std::int64_t rounds = hash.buckets.shape()[2];
  std::int32_t* const buckets = hash.buckets.data<std::int32_t>();
  if (hash.count.total() > 1)
    with_floating_type(hash.x.dtype(), [&]<typename T>(TypeTag<T>) {
      using A = Accumulator<T>;
      launch(cuda,
             {.blocks = x[0] * x[2] * rounds * ((x[1] + tile - 1) / tile),
              .threads = tile_threads,
              .shared_bytes = hash_bytes<A>},
             hash_positions<T>,
             HashCall<T>{x[1],
                         x[2],
                         rounds,
                         static_cast<int>(x[3]),
                         static_cast<int>(hash.count.columns()),
                         static_cast<std::int32_t>(hash.count.first),
                         static_cast<std::int32_t>(hash.count.first / 2),
                         static_cast<std::int32_t>(hash.count.second / 2),
                         hash.x.data<T>(),
                         hash.rotations.data<A>(),
                         buckets});
    });
  else
    hash.buckets.zero();
  if (!hash.padding.defined() && !hash.length.defined()) return;
  for_each_element(cuda,
                   hash.buckets.elements(),
                   MarkPadding{x[1],
                               x[2] * rounds,
                               static_cast<std::int32_t>(hash.count.total()),
                               hash.padding.defined() ? hash.padding.data<std::uint8_t>() : nullptr,
                               hash.length.defined() ? hash.length.data<std::int64_t>() : nullptr,
                               buckets});
}

void sort_buckets(Cuda cuda, const BucketSort& sort) {
  check(sort);
  if (sort.bucket.elements() == 0) return;
  const std::int64_t time = sort.bucket.shape().width(), rows = sort.bucket.elements() / time;
  const auto buckets = static_cast<std::int32_t>(sort.buckets);
  // Rows sorted at once, limited by 31-bit keys and by the scratch memory relative to the input.
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1, max_keys = std::int64_t{1} << 22;
  const std::int64_t group =
      std::max<std::int64_t>(1, std::min(most / (sort.buckets + 1), max_keys / time));
  for (std::int64_t row = 0; row < rows; row += group) {
    const auto part = [&](const Tensor& tensor) {
      return tensor.reshape({rows, time}).slice(row, std::min(row + group, rows));
    };
    const Tensor bucket = part(sort.bucket);
    const Tensor key = bucket.empty_like(MemoryTag::workspace);
    const Tensor sorted = key.empty_like(MemoryTag::workspace),
                 from = key.empty_like(MemoryTag::workspace);
    for_each_element(cuda,
                     bucket.elements(),
                     SortKey{time, buckets, bucket.data<std::int32_t>(), key.data<std::int32_t>()});
    sort_stably(cuda, key, sorted, from);
    for_each_element(cuda,
                     bucket.elements(),
                     PlaceSorted{time,
                                 buckets,
                                 sorted.data<std::int32_t>(),
                                 from.data<std::int32_t>(),
                                 part(sort.order).data<std::int32_t>(),
                                 part(sort.place).data<std::int32_t>()});
  }
}

}  // namespace longspan
