// Short convolutions, vectorized over channels.
#include "framework/kernels/short_convolution.h"

#include <algorithm>

#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

// Rows whose terms of a weight's gradient are summed before those of other rows.
constexpr std::int64_t rows_of_sum = 128;
// Channels of a block, whose sums stay in registers or the L1 cache.
constexpr std::int64_t block = 64;

template <typename T>
struct Convolution {
  using A = Accumulator<T>;
  std::int64_t time, channels, taps, before;
  const T* x;
  const A* bias;
  const std::int64_t* position;
  bool silu;
  Tensor weight_rows;  // [taps, channels]
  const A* weight;

  explicit Convolution(const ShortConvolution& call)
      : time(call.x.shape()[1] - call.weight.shape()[1] + 1),
        channels(call.x.shape()[2]),
        taps(call.weight.shape()[1]),
        before(taps - 1 - call.later),
        x(call.x.data<T>()),
        bias(elements_or_null<A>(call.bias)),
        position(elements_or_null<std::int64_t>(call.document_position)),
        silu(call.silu),
        weight_rows(Tensor::empty(
            {taps, channels}, call.weight.dtype(), call.weight.device(), MemoryTag::workspace)),
        weight(weight_rows.data<A>()) {
    const A* const from = call.weight.data<A>();
    A* const to = weight_rows.data<A>();
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t j = 0; j < taps; ++j) to[j * channels + c] = from[c * taps + j];
  }

  // First tap that output row `row` of [batch * time] reads.
  std::int64_t first_tap(std::int64_t row) const {
    return position == nullptr ? 0 : std::max<std::int64_t>(before - position[row], 0);
  }
  // Row of x that a tap of an output row reads, from channel c on.
  const T* input(std::int64_t row, std::int64_t tap, std::int64_t c) const {
    return x + (row + row / time * (taps - 1) + tap) * channels + c;
  }
  // Calls f(c, count) for each block of channels.
  template <typename F>
  void for_blocks(const F& f) const {
    for (std::int64_t c = 0; c < channels; c += block) f(c, std::min(block, channels - c));
  }
  // z = the sums before the activation of `count` channels from c on.
  void sum(std::int64_t row, std::int64_t c, std::int64_t count, A* z) const {
    if (bias == nullptr)
      std::fill_n(z, count, A{0});
    else
      std::copy_n(bias + c, count, z);
    for (std::int64_t j = first_tap(row); j < taps; ++j) {
      const T* const from = input(row, j, c);
      const A* const w = weight + j * channels + c;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) z[i] += w[i] * wide(from[i]);
    }
  }
  std::int64_t cost() const { return channels * (taps + 4); }
};

template <typename T>
void write_outputs(const Convolution<T>& of, std::int64_t rows, T* y) {
  using A = Accumulator<T>;
  for_rows(rows, of.cost(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      of.for_blocks([&](std::int64_t c, std::int64_t count) {
        A z[block];
        of.sum(row, c, count, z);
        T* const to = y + row * of.channels + c;
        if (of.silu) {
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) put(to[i], z[i] * sigmoid(z[i]));
        } else {
          for (std::int64_t i = 0; i < count; ++i) put(to[i], z[i]);
        }
      });
  });
}

// dz: gradients of the sums before the activation.
template <typename T>
void write_sum_gradients(const Convolution<T>& of,
                         std::int64_t rows,
                         const T* dy,
                         Accumulator<T>* dz) {
  using A = Accumulator<T>;
  for_rows(rows, of.cost(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      of.for_blocks([&](std::int64_t c, std::int64_t count) {
        const T* const above = dy + row * of.channels + c;
        A* const to = dz + row * of.channels + c;
        if (!of.silu) {
          for (std::int64_t i = 0; i < count; ++i) to[i] = wide(above[i]);
          return;
        }
        A z[block];
        of.sum(row, c, count, z);
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) {
          const A open = sigmoid(z[i]);
          to[i] = wide(above[i]) * open * (A{1} + z[i] * (A{1} - open));
        }
      });
  });
}

// in_rows: number of rows of dx.
template <typename T>
void write_input_gradients(const Convolution<T>& of,
                           std::int64_t in_rows,
                           const Accumulator<T>* dz,
                           T* dx) {
  using A = Accumulator<T>;
  for_rows(in_rows, of.cost(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t in_sequence = of.time + of.taps - 1;
      const std::int64_t batch = at / in_sequence, place = at % in_sequence;
      const std::int64_t last = std::min(of.taps - 1, place);
      of.for_blocks([&](std::int64_t c, std::int64_t count) {
        A sum[block] = {};
        for (std::int64_t j = std::max<std::int64_t>(place - of.time + 1, 0); j <= last; ++j) {
          const std::int64_t row = batch * of.time + place - j;
          if (j < of.first_tap(row)) continue;
          const A* const w = of.weight + j * of.channels + c;
          const A* const d = dz + row * of.channels + c;
#pragma omp simd
          for (std::int64_t i = 0; i < count; ++i) sum[i] += w[i] * d[i];
        }
        T* const to = dx + at * of.channels + c;
        for (std::int64_t i = 0; i < count; ++i) put(to[i], sum[i]);
      });
    }
  });
}

// Terms of the gradients of the weights and, last, of the bias: [groups, taps + 1, channels], each
// a sum over a group of rows.
template <typename T>
void write_weight_terms(const Convolution<T>& of,
                        std::int64_t rows,
                        const Accumulator<T>* dz,
                        Accumulator<T>* terms) {
  using A = Accumulator<T>;
  const std::int64_t groups = (rows + rows_of_sum - 1) / rows_of_sum;
  for_rows(groups, rows_of_sum * of.cost(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group)
      of.for_blocks([&](std::int64_t c, std::int64_t count) {
        for (std::int64_t tap = 0; tap <= of.taps; ++tap) {
          A sum[block] = {};
          for (std::int64_t row = group * rows_of_sum;
               row < std::min(rows, (group + 1) * rows_of_sum);
               ++row) {
            const A* const d = dz + row * of.channels + c;
            if (tap == of.taps) {
#pragma omp simd
              for (std::int64_t i = 0; i < count; ++i) sum[i] += d[i];
            } else if (tap >= of.first_tap(row)) {
              const T* const from = of.input(row, tap, c);
#pragma omp simd
              for (std::int64_t i = 0; i < count; ++i) sum[i] += d[i] * wide(from[i]);
            }
          }
          std::copy_n(sum, count, terms + (group * (of.taps + 1) + tap) * of.channels + c);
        }
      });
  });
}

}  // namespace

void short_convolution(Cpu cpu, const ShortConvolution& call) {
  check(call);
  if (cpu.state->is_meta()) return;
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    write_outputs(Convolution<T>(call), call.y.shape().rows(), call.y.data<T>());
  });
}

void short_convolution_backward(Cpu cpu, const ShortConvolutionGradient& call) {
  check(call);
  with_floating_type(call.forward.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const Shape& shape = call.dy.shape();
    const std::int64_t rows = shape.rows(), channels = shape.width();
    const std::int64_t taps = call.forward.weight.shape()[1];
    const std::int64_t groups = (rows + rows_of_sum - 1) / rows_of_sum;
    const auto workspace = [&](const Shape& of_sums) {
      return Tensor::empty(
          of_sums, call.forward.weight.dtype(), call.dy.device(), MemoryTag::workspace);
    };
    const Tensor dz = workspace(shape), terms = workspace({groups, taps + 1, channels});
    const Tensor sums = workspace({taps + 1, channels});
    if (cpu.state->is_meta()) return;
    const Convolution<T> of(call.forward);
    write_sum_gradients(of, rows, call.dy.data<T>(), dz.data<A>());
    write_input_gradients(of, call.dx.shape().rows(), dz.data<A>(), call.dx.data<T>());
    write_weight_terms(of, rows, dz.data<A>(), terms.data<A>());
    sums.zero();
    add_rows_in_order(terms.data<A>(), groups, (taps + 1) * channels, sums.data<A>());
    const A* const of_taps = sums.data<A>();
    A* const dweight = call.dweight.data<A>();
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t j = 0; j < taps; ++j) dweight[c * taps + j] = of_taps[j * channels + c];
    if (call.dbias.defined())
      std::copy_n(of_taps + taps * channels, channels, call.dbias.data<A>());
  });
}

}  // namespace longspan
