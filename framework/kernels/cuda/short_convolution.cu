// Short convolutions, an element a thread.
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/element.h"
#include "framework/kernels/short_convolution.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

// Rows whose terms of a weight's gradient one element sums.
constexpr std::int64_t rows_of_sum = 128;

template <typename T>
struct Convolution {
  using A = Accumulator<T>;
  std::int64_t time, channels, taps, before;
  const T* x;
  const A *weight, *bias;
  const std::int64_t* position;
  bool silu;

  explicit Convolution(const ShortConvolution& call)
      : time(call.x.shape()[1] - call.weight.shape()[1] + 1),
        channels(call.x.shape()[2]),
        taps(call.weight.shape()[1]),
        before(taps - 1 - call.later),
        x(call.x.data<T>()),
        weight(call.weight.data<A>()),
        bias(elements_or_null<A>(call.bias)),
        position(elements_or_null<std::int64_t>(call.document_position)),
        silu(call.silu) {}

  // First tap that output row `row` of [batch * time] reads.
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE std::int64_t first_tap(std::int64_t row) const {
    if (position == nullptr || position[row] >= before) return 0;
    return before - position[row];
  }
  // Row of x that tap 0 of an output row reads.
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE std::int64_t source(std::int64_t row) const {
    return row + row / time * (taps - 1);
  }
  // The sum before the activation.
  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE A sum(std::int64_t row, std::int64_t c) const {
    A z = bias == nullptr ? A{0} : bias[c];
    const T* const from = x + source(row) * channels + c;
    for (std::int64_t j = first_tap(row); j < taps; ++j)
      z += weight[c * taps + j] * wide(from[j * channels]);
    return z;
  }
};

template <typename T>
struct ConvolutionAt {
  Convolution<T> of;
  T* y;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    const auto z = of.sum(i / of.channels, c);
    put(y[i], of.silu ? z * sigmoid(z) : z);
  }
};

// Gradient of the sum before the activation.
template <typename T>
struct SumGradientAt {
  Convolution<T> of;
  const T* dy;
  Accumulator<T>* dz;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    using A = Accumulator<T>;
    const A above = wide(dy[i]);
    if (!of.silu) {
      dz[i] = above;
      return;
    }
    const A z = of.sum(i / of.channels, c), open = sigmoid(z);
    dz[i] = above * open * (A{1} + z * (A{1} - open));
  }
};

template <typename T>
struct InputGradientAt {
  Convolution<T> of;
  const Accumulator<T>* dz;
  T* dx;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    using A = Accumulator<T>;
    const std::int64_t rows = of.time + of.taps - 1, at = i / of.channels;
    const std::int64_t batch = at / rows, place = at % rows;
    A sum = 0;
    for (std::int64_t j = 0; j < of.taps; ++j) {
      const std::int64_t t = place - j;
      if (t < 0 || t >= of.time) continue;
      const std::int64_t row = batch * of.time + t;
      if (j >= of.first_tap(row)) sum += of.weight[c * of.taps + j] * dz[row * of.channels + c];
    }
    put(dx[i], sum);
  }
};

// Terms of the gradients of the weights and, last, of the bias: [groups, taps + 1, channels].
template <typename T>
struct WeightTermsAt {
  Convolution<T> of;
  std::int64_t rows;
  const Accumulator<T>* dz;
  Accumulator<T>* terms;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    using A = Accumulator<T>;
    const std::int64_t tap = i / of.channels % (of.taps + 1);
    const std::int64_t begin = i / of.channels / (of.taps + 1) * rows_of_sum;
    const std::int64_t end = rows < begin + rows_of_sum ? rows : begin + rows_of_sum;
    A sum = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      const A d = dz[row * of.channels + c];
      if (tap == of.taps)
        sum += d;
      else if (tap >= of.first_tap(row))
        sum += d * wide(of.x[(of.source(row) + tap) * of.channels + c]);
    }
    terms[i] = sum;
  }
};

template <typename A>
struct WeightSumAt {
  std::int64_t groups, channels, taps;
  const A* terms;
  A *dweight, *dbias;

  // i: an element of [taps + 1, channels].
  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    const std::int64_t tap = i / channels;
    A sum = 0;
    for (std::int64_t group = 0; group < groups; ++group)
      sum += terms[group * (taps + 1) * channels + i];
    if (tap < taps)
      dweight[c * taps + tap] = sum;
    else if (dbias != nullptr)
      dbias[c] = sum;
  }
};

}  // namespace

void short_convolution(Cuda backend, const ShortConvolution& call) {
  check(call);
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    parallel_elements(
        backend, call.y.shape(), ConvolutionAt<T>{Convolution<T>(call), call.y.data<T>()});
  });
}

void short_convolution_backward(Cuda backend, const ShortConvolutionGradient& call) {
  check(call);
  with_floating_type(call.forward.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const Convolution<T> of(call.forward);
    const Shape& shape = call.dy.shape();
    const std::int64_t rows = shape.rows(), groups = (rows + rows_of_sum - 1) / rows_of_sum;
    const auto workspace = [&](const Shape& of_sums) {
      return Tensor::empty(
          of_sums, call.forward.weight.dtype(), call.dy.device(), MemoryTag::workspace);
    };
    const Tensor dz = workspace(shape), terms = workspace({groups, of.taps + 1, of.channels});
    if (backend.state->is_meta()) return;
    parallel_elements(backend, shape, SumGradientAt<T>{of, call.dy.data<T>(), dz.data<A>()});
    parallel_elements(
        backend, call.dx.shape(), InputGradientAt<T>{of, dz.data<A>(), call.dx.data<T>()});
    parallel_elements(
        backend, terms.shape(), WeightTermsAt<T>{of, rows, dz.data<A>(), terms.data<A>()});
    parallel_elements(backend,
                      {of.taps + 1, of.channels},
                      WeightSumAt<A>{groups,
                                     of.channels,
                                     of.taps,
                                     terms.data<A>(),
                                     call.dweight.data<A>(),
                                     elements_or_null<A>(call.dbias)});
  });
}

}  // namespace longspan
