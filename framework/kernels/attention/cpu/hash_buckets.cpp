#include "framework/kernels/attention/hash_buckets.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "framework/kernels/attention/cpu/tile_gemm.h"
#include "framework/kernels/cpu/loops.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace {

// Vectors hashed at once; with the rotations of a round they fit in the L2 cache.
constexpr std::int64_t block = 64;

// The rotations of every head and round, [heads, rounds, dim, width]; width is the number of
// columns padded to full vectors.
template <typename A>
struct Rotations {
  std::int64_t rounds;
  std::int64_t dim;
  std::int64_t columns;
  std::int64_t width;
  std::vector<A> elements;

  explicit Rotations(const BucketHash& hash)
      : rounds(hash.rotations.shape()[2]),
        dim(hash.rotations.shape()[1]),
        columns(hash.rotations.shape()[3]),
        width(tile_attention::padded<A>(columns)) {
    const std::int64_t heads = hash.rotations.shape()[0];
    elements.assign(static_cast<std::size_t>(heads * rounds * dim * width), A{0});
    const A* from = hash.rotations.data<A>();
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t d = 0; d < dim; ++d)
        for (std::int64_t r = 0; r < rounds; ++r, from += columns)
          std::copy_n(from, columns, elements.data() + (((h * rounds) + r) * dim + d) * width);
  }
  const A* of(std::int64_t head, std::int64_t round) const {
    return elements.data() + (head * rounds + round) * dim * width;
  }
};

// Returns the index of the largest of [y; -y] (ties go to the first), or 0 if y contains NaN.
template <typename A>
std::int32_t argmax_abs(const A* y, std::int32_t count) {
  A best = 0;
#pragma omp simd reduction(max : best)
  for (std::int32_t c = 0; c < count; ++c) {
    const A size = std::abs(y[c]);
    best = size > best ? size : best;
  }
  constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max();
  std::int32_t index = none;
#pragma omp simd reduction(min : index)
  for (std::int32_t c = 0; c < count; ++c) {
    const std::int32_t opposite = y[c] == -best ? c + count : none;
    const std::int32_t candidate = y[c] == best ? c : opposite;
    index = candidate < index ? candidate : index;
  }
  return index == none ? 0 : index;
}

template <typename A>
std::int32_t bucket_of(const A* y, const BucketCount& count) {
  const auto half1 = static_cast<std::int32_t>(count.first / 2);
  const auto half2 = static_cast<std::int32_t>(count.second / 2);
  const std::int32_t low = half1 > 0 ? argmax_abs(y, half1) : 0;
  const std::int32_t high = half2 > 0 ? argmax_abs(y + half1, half2) : 0;
  return low + static_cast<std::int32_t>(count.first) * high;
}

// Hashes positions [begin, end) of one batch row and head in every round.
template <typename T>
class BlockHash {
 public:
  using A = Accumulator<T>;

  BlockHash(const BucketHash& hash, const Rotations<A>& rotations)
      : hash_(hash),
        rotations_(rotations),
        time_(hash.x.shape()[1]),
        heads_(hash.x.shape()[2]),
        products_(static_cast<std::size_t>(block * rotations.width)) {
    if constexpr (!std::is_same_v<T, A>)
      converted_.resize(static_cast<std::size_t>(block * rotations.dim));
  }

  void run(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) {
    const std::int64_t step = heads_ * rotations_.dim;
    const T* x = hash_.x.data<T>() + ((b * time_ + begin) * heads_ + h) * rotations_.dim;
    const std::int64_t rows = end - begin;
    std::int32_t* buckets =
        hash_.buckets.data<std::int32_t>() + (b * heads_ + h) * rotations_.rounds * time_ + begin;
    for (std::int64_t r = 0; r < rotations_.rounds; ++r, buckets += time_) {
      tile_attention::Factors<A> factors = {.depth = rotations_.dim,
                                            .a = nullptr,
                                            .a_step = step,
                                            .b = rotations_.of(h, r),
                                            .b_step = rotations_.width,
                                            .c = products_.data(),
                                            .c_step = rotations_.width};
      if constexpr (std::is_same_v<T, A>) {
        factors.a = x;
      } else {
        if (r == 0) convert(x, step, rows);
        factors.a = converted_.data();
        factors.a_step = rotations_.dim;
      }
      tile_attention::product(rows, factors, [&](std::int64_t, std::int64_t) {
        return tile_attention::Interval{0, rotations_.width};
      });
      for (std::int64_t i = 0; i < rows; ++i)
        buckets[i] = bucket_of(products_.data() + i * rotations_.width, hash_.count);
    }
  }

 private:
  void convert(const T* x, std::int64_t step, std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t d = 0; d < rotations_.dim; ++d)
        converted_[static_cast<std::size_t>(i * rotations_.dim + d)] =
            static_cast<A>(x[i * step + d]);
  }

  const BucketHash& hash_;
  const Rotations<A>& rotations_;
  std::int64_t time_;
  std::int64_t heads_;
  std::vector<A> products_;
  std::vector<A> converted_;
};

template <typename T>
void hash_all(const BucketHash& hash) {
  const Rotations<Accumulator<T>> rotations(hash);
  const std::int64_t time = hash.x.shape()[1], heads = hash.x.shape()[2];
  const std::int64_t blocks = (time + block - 1) / block;
  const std::int64_t cost = block * rotations.rounds * rotations.dim * rotations.width;
  for_rows(hash.x.shape()[0] * heads * blocks, cost, [&](std::int64_t first, std::int64_t last) {
    BlockHash<T> blocks_of_thread(hash, rotations);
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = i % blocks * block;
      const std::int64_t row = i / blocks;
      blocks_of_thread.run(row / heads, row % heads, begin, std::min(begin + block, time));
    }
  });
}

void mark_padding(const BucketHash& hash) {
  const std::int64_t time = hash.x.shape()[1];
  const std::int64_t rows = hash.buckets.elements() / std::max<std::int64_t>(time, 1);
  const std::int64_t rows_of_batch = rows / std::max<std::int64_t>(hash.x.shape()[0], 1);
  const auto mark = static_cast<std::int32_t>(hash.count.total());
  const std::uint8_t* padding =
      hash.padding.defined() ? hash.padding.data<std::uint8_t>() : nullptr;
  const std::int64_t* length = hash.length.defined() ? hash.length.data<std::int64_t>() : nullptr;
  for_rows(rows, time, [=, &hash](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t b = row / rows_of_batch;
      std::int32_t* buckets = hash.buckets.data<std::int32_t>() + row * time;
      if (padding != nullptr)
        for (std::int64_t t = 0; t < time; ++t)
          if (padding[b * time + t] != 0) buckets[t] = mark;
      if (length != nullptr)
        for (std::int64_t t = std::max<std::int64_t>(length[b], 0); t < time; ++t)
          buckets[t] = mark;
    }
  });
}

// Counting sort of one row; returns false if a bucket is out of range.
bool sort_row(const std::int32_t* bucket,
              std::int64_t time,
              std::int64_t buckets,
              std::vector<std::int32_t>& next,
              std::int32_t* order,
              std::int32_t* place) {
  next.assign(static_cast<std::size_t>(buckets) + 2, 0);
  for (std::int64_t t = 0; t < time; ++t) {
    if (bucket[t] < 0 || bucket[t] > buckets) return false;
    ++next[static_cast<std::size_t>(bucket[t]) + 1];
  }
  for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  const std::int64_t kept = next[static_cast<std::size_t>(buckets)];
  for (std::int64_t t = 0; t < time; ++t) {
    if (bucket[t] == buckets) {
      place[t] = -1;
      continue;
    }
    const std::int32_t slot = next[static_cast<std::size_t>(bucket[t])]++;
    place[t] = slot;
    order[slot] = static_cast<std::int32_t>(t);
  }
  std::fill(order + kept, order + time, -1);
  return true;
}

}  // namespace

void hash_buckets(Cpu, const BucketHash& hash) {
  check(hash);
  if (hash.count.total() > 1)
    with_floating_type(hash.x.dtype(),
                       [&](auto tag) { hash_all<typename decltype(tag)::type>(hash); });
  else
    hash.buckets.zero();
  if (hash.padding.defined() || hash.length.defined()) mark_padding(hash);
}

void sort_buckets(Cpu, const BucketSort& sort) {
  const Shape& shape = sort.bucket.shape();
  check(sort);
  const std::int64_t time = shape.width();
  bool in_range = true;
  if (shape.elements() > 0)
    for_rows(shape.rows(), 4 * time, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int32_t> next;
      for (std::int64_t row = begin; row < end; ++row)
        if (!sort_row(sort.bucket.data<std::int32_t>() + row * time,
                      time,
                      sort.buckets,
                      next,
                      sort.order.data<std::int32_t>() + row * time,
                      sort.place.data<std::int32_t>() + row * time))
#pragma omp atomic write
          in_range = false;
    });
  require(in_range, "sort_buckets: expected buckets from 0 to {}", sort.buckets);
}

}  // namespace longspan
HWY_AFTER_NAMESPACE();
