// Attention sinks.
#include "framework/kernels/attention/sinks.h"

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

// Offset of the log-sum-exp of a row [batch, time, heads].
struct SumPosition {
  std::int64_t time, heads;

  LONGSPAN_HOST_DEVICE std::int64_t operator()(std::int64_t row) const {
    const std::int64_t h = row % heads, i = row / heads % time, b = row / heads / time;
    return (b * heads + h) * time + i;
  }
};

template <typename T>
struct ShrinkBySink {
  using A = Accumulator<T>;
  SumPosition place;
  std::int64_t dim;
  const A* sink;
  const A* sums;
  const T* out;

  LONGSPAN_HOST_DEVICE A operator()(std::int64_t i) const {
    const std::int64_t row = i / dim;
    return wide(out[i]) / (A{1} + std::exp(sink[row % place.heads] - sums[place(row)]));
  }
};

template <typename A>
struct SumWithSink {
  std::int64_t time, heads;
  const A* sink;
  const A* sums;

  LONGSPAN_HOST_DEVICE A operator()(std::int64_t i) const {
    const A a = sums[i], b = sink[i / time % heads];
    return (a > b ? a : b) + std::log1p(std::exp(-std::abs(a - b)));
  }
};

template <typename T>
struct SinkGradient {
  using A = Accumulator<T>;
  SumPosition place;
  std::int64_t dim;
  const A* sink;
  const A* sums;
  const T* out;
  const T* dout;

  LONGSPAN_HOST_DEVICE A operator()(std::int64_t row) const {
    A product = 0;
    for (std::int64_t c = 0; c < dim; ++c)
      product += wide(out[row * dim + c]) * wide(dout[row * dim + c]);
    return -std::exp(sink[row % place.heads] - sums[place(row)]) * product;
  }
};

void check_sinks(const Tensor& sink, const Tensor& out, const Tensor& log_sum_exp) {
  const Shape& shape = out.shape();
  const DType sums = accumulator_of(out.dtype());
  require(shape.dimensions() == 4 && log_sum_exp.shape() == Shape{shape[0], shape[2], shape[1]} &&
              sink.shape() == Shape{shape[2]} && sink.dtype() == sums &&
              log_sum_exp.dtype() == sums,
          "attention sinks: sinks {} {} and sums {} {} do not match attention of {} {}",
          name_of(sink.dtype()),
          sink.shape(),
          name_of(log_sum_exp.dtype()),
          log_sum_exp.shape(),
          name_of(out.dtype()),
          shape);
}

}  // namespace

void join_sinks(Backend backend, const Tensor& sink, const Tensor& out, const Tensor& log_sum_exp) {
  check_sinks(sink, out, log_sum_exp);
  const Shape& shape = out.shape();
  with_floating_type(out.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const A* const sinks = sink.data<A>();
    A* const sums = log_sum_exp.data<A>();
    write_elements(backend,
                   out.elements(),
                   out.data<T>(),
                   ShrinkBySink<T>{{shape[1], shape[2]}, shape[3], sinks, sums, out.data<T>()});
    write_elements(
        backend, log_sum_exp.elements(), sums, SumWithSink<A>{shape[1], shape[2], sinks, sums});
  });
}

void sink_gradients(Backend backend, const SinkGradients& g) {
  check_sinks(g.sink, g.out, g.log_sum_exp);
  const Shape& shape = g.out.shape();
  require(g.dout.shape() == shape && g.dout.dtype() == g.out.dtype() &&
              g.dsink.shape() == Shape{shape[0], shape[1], shape[2]} &&
              g.dsink.dtype() == g.sink.dtype(),
          "attention sinks: the gradients do not match attention of {}",
          shape);
  with_floating_type(g.out.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    write_elements(backend,
                   g.dsink.elements(),
                   g.dsink.data<A>(),
                   SinkGradient<T>{{shape[1], shape[2]},
                                   shape[3],
                                   g.sink.data<A>(),
                                   g.log_sum_exp.data<A>(),
                                   g.out.data<T>(),
                                   g.dout.data<T>()});
  });
}

}  // namespace longspan
