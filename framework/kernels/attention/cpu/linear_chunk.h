// A chunk of rows of linear attention on the CPU, converted to accumulators, with its features,
// weights and decays.
#pragma once

#include <omp.h>

#include "framework/kernels/attention/cpu/attention_problem.h"
#include "framework/kernels/attention/linear_attention.h"
#include "framework/kernels/vector_math.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::tile_attention {

static_assert(linear_chunk == tile);

// A part of one head of one batch row.
struct LinearItem {
  std::int64_t part;
  std::int64_t b;
  std::int64_t h;
};

template <typename In>
class LinearProblem {
 public:
  using T = Accumulator<In>;

  explicit LinearProblem(const LinearAttention& attention)
      : call(attention),
        batch(call.query.shape()[0]),
        heads(call.query.shape()[2]),
        features(call.query.shape()[3]),
        values(call.value.shape()[3]),
        feature_step(padded<T>(features)),
        value_step(padded<T>(values)) {}

  const LinearAttention& call;
  std::int64_t batch, heads, features, values;
  std::int64_t feature_step, value_step;  // of the rows of a tile

  template <typename X>
  Rows<X> rows(X* data, const Tensor& of, LinearItem at, std::int64_t begin) const {
    const std::int64_t width = of.shape()[3];
    return {data + ((at.b * of.shape()[1] + begin) * heads + at.h) * width, heads * width};
  }
  // Offset in a [batch, time, heads] tensor.
  std::int64_t place(const Tensor& of, LinearItem at, std::int64_t row) const {
    return (at.b * of.shape()[1] + row) * heads + at.h;
  }
  // One state of a tensor of states: [features, values + 1].
  T* state(const Tensor& states, LinearItem at) const {
    const std::int64_t part = call.causal || states.shape()[0] > 1 ? at.part : 0;
    return states.data<T>() + ((part * batch + at.b) * heads + at.h) * features * (values + 1);
  }

  // Reads rows; those after the last become zeros.
  void read(const Tensor& x, LinearItem at, Interval rows_at, std::int64_t step, T* to) const {
    const std::int64_t count = rows_at.end - rows_at.begin;
    read_rows<In, T>(rows(static_cast<const In*>(x.data<In>()), x, at, rows_at.begin),
                     count,
                     x.shape()[3],
                     nullptr,
                     to);
    std::fill(to + count * step, to + tile * step, T{});
  }
  void read_features(const Tensor& x, LinearItem at, Interval rows_at, T* to) const {
    read(x, at, rows_at, feature_step, to);
    if (call.map != FeatureMap::elu_plus_one) return;
    for (std::int64_t r = 0; r < rows_at.end - rows_at.begin; ++r) {
      T* const row = to + r * feature_step;
#pragma omp simd
      for (std::int64_t c = 0; c < features; ++c) {
        const T power = longspan::fast_exp(row[c] < 0 ? row[c] : T{0});
        row[c] = row[c] > 0 ? row[c] + 1 : power;
      }
    }
  }
  // Reads keys multiplied by their weights, and values; hidden keys and their values become zeros.
  // weights: [tile].
  void read_keys(LinearItem at, Interval rows_at, T* key, T* value, T* weights) const {
    read_features(call.key, at, rows_at, key);
    read(call.value, at, rows_at, value_step, value);
    std::fill_n(weights, tile, T{1});
    if (!call.log_weight.defined()) return;
    for (std::int64_t r = 0; r < rows_at.end - rows_at.begin; ++r) {
      const T weight = longspan::fast_exp(
          call.log_weight.template data<T>()[place(call.log_weight, at, rows_at.begin + r)]);
      weights[r] = weight;
      T* const row = key + r * feature_step;
      if (weight == 1) continue;
      if (weight == 0) {
        std::fill_n(row, feature_step, T{});
        std::fill_n(value + r * value_step, value_step, T{});
      } else {
#pragma omp simd
        for (std::int64_t c = 0; c < feature_step; ++c) row[c] *= weight;
      }
    }
  }
};

// Decays between the rows of a chunk.
template <typename T>
class ChunkDecays {
 public:
  template <typename In>
  void read(const LinearProblem<In>& p, LinearItem at, Interval rows) {
    some_ = false;
    sum_ = 0;
    if (!p.call.decay.defined()) return;
    T sum = 0;
    const std::int64_t count = rows.end - rows.begin;
    for (std::int64_t r = 0; r < count; ++r) {
      sum += p.call.decay.template data<T>()[p.place(p.call.decay, at, rows.begin + r)];
      sums_[r] = sum;
    }
    some_ = sum != 0;
    sum_ = sum;
    if (!some_) return;
    for (std::int64_t r = 0; r < count; ++r) {
      from_begin_[r] = longspan::fast_exp(sums_[r]);
      to_end_[r] = longspan::fast_exp(sum - sums_[r]);
    }
    whole_ = from_begin_[count - 1];
  }

  bool any() const { return some_; }
  T sum() const { return sum_; }
  T whole() const { return some_ ? whole_ : T{1}; }
  T from_begin(std::int64_t r) const { return some_ ? from_begin_[r] : T{1}; }
  T to_end(std::int64_t r) const { return some_ ? to_end_[r] : T{1}; }

  // Pairs of a query and a key, [rows, tile]: later keys become 0, the others decay.
  void mask(std::int64_t rows, T* pairs) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const row = pairs + i * tile;
      if (some_)
#pragma omp simd
        for (std::int64_t j = 0; j <= i; ++j) row[j] *= longspan::fast_exp(sums_[i] - sums_[j]);
      std::fill(row + i + 1, row + tile, T{});
    }
  }

 private:
  bool some_ = false;
  T sum_ = 0;
  T whole_ = 1;
  T sums_[tile];
  T from_begin_[tile];
  T to_end_[tile];
};

template <typename T>
void scale_row(T* row, std::int64_t width, T factor) {
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) row[c] *= factor;
}
// to += factor * from.
template <typename T>
void add_row(const T* from, std::int64_t width, T factor, T* to) {
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) to[c] += factor * from[c];
}

// c = a b for all its elements, or added to c. a: [rows, depth]; by_column: [depth, rows].
template <bool by_column = false, typename T>
void add_full(std::int64_t rows, std::int64_t width, const Factors<T>& f) {
  add_product<by_column>(rows, width, f, [&](std::int64_t, std::int64_t) {
    return Interval{0, f.depth};
  });
}
template <typename T>
void write_full(std::int64_t rows, std::int64_t width, const Factors<T>& f) {
  product(rows, f, [=](std::int64_t, std::int64_t) { return Interval{0, width}; });
}

// Calls f(rows) for the chunks of a part, forward or backward.
template <typename F>
void for_chunks(const Range& part, const F& f) {
  for (std::int64_t begin = part.begin; begin < part.end; begin += tile)
    f(Interval{begin, std::min(begin + tile, part.end)});
}
template <typename F>
void for_chunks_backwards(const Range& part, const F& f) {
  for (std::int64_t chunk = (part.count() + tile - 1) / tile - 1; chunk >= 0; --chunk) {
    const std::int64_t begin = part.begin + chunk * tile;
    f(Interval{begin, std::min(begin + tile, part.end)});
  }
}

// Calls worker.run(item) for the parts of all heads and batch rows. Worker(problem, carver)
// allocates its tiles from the carver. A dry device only counts the workspace.
template <typename Worker, typename Problem>
void run_linear(const Problem& p, std::int64_t parts) {
  const std::int64_t items = parts * p.batch * p.heads;
  if (items == 0) return;
  // Less work does not justify waking a thread.
  constexpr std::int64_t products_a_thread = std::int64_t{1} << 18;
  const std::int64_t rows = std::max(p.call.query.shape()[1], p.call.key.shape()[1]);
  const std::int64_t products = p.batch * p.heads * rows * p.feature_step * p.value_step;
  const std::int64_t workers = std::clamp<std::int64_t>(
      products / products_a_thread, 1, std::min<std::int64_t>(omp_get_max_threads(), items));
  ScratchArena counted(nullptr);
  { const Worker worker(p, counted); }
  const std::int64_t bytes = counted.used();
  const Device& device = p.call.query.device();
  const Tensor workspace = Tensor::empty({workers, bytes}, DType::u8, device, MemoryTag::workspace);
  if (device.state().is_meta()) return;
#pragma omp parallel num_threads(static_cast <int>(workers))
  {
    ScratchArena carver(workspace.bytes() + omp_get_thread_num() * bytes);
    Worker worker(p, carver);
#pragma omp for schedule(dynamic)
    for (std::int64_t item = 0; item < items; ++item)
      worker.run({item / (p.batch * p.heads), item / p.heads % p.batch, item % p.heads});
  }
}

}  // namespace longspan::tile_attention
HWY_AFTER_NAMESPACE();
