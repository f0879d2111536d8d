// Step sizes, decay gates and factors of heads.
#include "framework/kernels/recurrence_gates.h"

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

template <typename T>
struct StepAt {
  using A = Accumulator<T>;
  const T* x;
  A least, most;
  A* d;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const A step = softplus(wide(x[i]));
    d[i] = step < least ? least : (step > most ? most : step);
  }
};

template <typename T>
struct StepGradientAt {
  using A = Accumulator<T>;
  const T* x;
  A least, most;
  const A* dd;
  T* dx;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const A step = softplus(wide(x[i]));
    put(dx[i], step < least || step > most ? A{0} : dd[i] * sigmoid(wide(x[i])));
  }
};

template <typename T>
struct DecayAt {
  using A = Accumulator<T>;
  const T* x;
  const A* log_rate;
  std::int64_t each;  // gates of a head
  bool is_step;
  A* g;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    const A step = wide(x[i]);
    g[i] = -std::exp(log_rate[c / each]) * (is_step ? step : softplus(step));
  }
};

template <typename T>
struct DecayInputGradientAt {
  using A = Accumulator<T>;
  const T* x;
  const A *log_rate, *dg;
  std::int64_t each;
  bool is_step;
  T* dx;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    const A slope = is_step ? A{1} : sigmoid(wide(x[i]));
    put(dx[i], -dg[i] * std::exp(log_rate[c / each]) * slope);
  }
};

template <typename T>
struct DecayRateGradientAt {
  using A = Accumulator<T>;
  const T* x;
  const A *log_rate, *dg;
  std::int64_t each;
  bool is_step;
  A* drate;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t head) const {
    A sum = 0;
    for (std::int64_t c = 0; c < each; ++c) {
      const A step = wide(x[i * each + c]);
      sum += dg[i * each + c] * (is_step ? step : softplus(step));
    }
    drate[i] = -std::exp(log_rate[head]) * sum;
  }
};

template <typename T>
struct HeadFactors {
  using A = Accumulator<T>;
  const A* factor;
  std::int64_t each;  // elements of a head
  bool by_row;

  // c: place of element i in its row.
  LONGSPAN_HOST_DEVICE A at(std::int64_t i, std::int64_t c) const {
    return factor[(by_row ? i : c) / each];
  }
};

template <typename T>
struct HeadScaleAt {
  HeadFactors<T> factors;
  const T* x;
  T* y;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t c) const {
    put(y[i], factors.at(i, c) * wide(x[i]));
  }
};

template <typename T>
struct HeadFactorGradientAt {
  using A = Accumulator<T>;
  const T *x, *dy;
  std::int64_t each;
  A* dfactor;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    A sum = 0;
    for (std::int64_t c = 0; c < each; ++c) sum += wide(x[i * each + c]) * wide(dy[i * each + c]);
    dfactor[i] = sum;
  }
};

// [rows, heads * n].
Shape rows_of_heads(const Shape& shape) {
  const std::int64_t width = shape[-2] * shape.width();
  return {shape.elements() / width, width};
}

}  // namespace

void step_size(Backend backend, const StepSize& call) {
  check(call);
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_elements(backend,
                      call.x.shape(),
                      StepAt<T>{call.x.data<T>(),
                                static_cast<A>(call.least),
                                static_cast<A>(call.most),
                                call.d.data<A>()});
  });
}

void step_size_backward(Backend backend, const StepSizeGradient& call) {
  check(call);
  with_floating_type(call.dx.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_elements(backend,
                      call.dx.shape(),
                      StepGradientAt<T>{call.forward.x.data<T>(),
                                        static_cast<A>(call.forward.least),
                                        static_cast<A>(call.forward.most),
                                        call.dd.data<A>(),
                                        call.dx.data<T>()});
  });
}

void decay_gate(Backend backend, const DecayGate& call) {
  check(call);
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    parallel_elements(backend,
                      call.x.shape(),
                      DecayAt<T>{call.x.data<T>(),
                                 call.log_rate.data<A>(),
                                 call.x.shape().width() / call.log_rate.elements(),
                                 call.is_step,
                                 call.g.data<A>()});
  });
}

void decay_gate_backward(Backend backend, const DecayGateGradient& call) {
  check(call);
  with_floating_type(call.forward.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const T* const x = call.forward.x.data<T>();
    const A* const log_rate = call.forward.log_rate.data<A>();
    const std::int64_t each = call.forward.x.shape().width() / call.forward.log_rate.elements();
    parallel_elements(
        backend,
        call.dx.shape(),
        DecayInputGradientAt<T>{
            x, log_rate, call.dg.data<A>(), each, call.forward.is_step, call.dx.data<T>()});
    parallel_elements(
        backend,
        call.drate.shape(),
        DecayRateGradientAt<T>{
            x, log_rate, call.dg.data<A>(), each, call.forward.is_step, call.drate.data<A>()});
  });
}

void head_scale(Backend backend, const HeadScale& call) {
  check(call);
  const Shape& shape = call.x.shape();
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const HeadFactors<T> factors = {call.factor.data<A>(), shape.width(), call.by_row()};
    parallel_elements(
        backend, rows_of_heads(shape), HeadScaleAt<T>{factors, call.x.data<T>(), call.y.data<T>()});
  });
}

void head_scale_backward(Backend backend, const HeadScaleGradient& call) {
  check(call);
  const HeadScale& forward = call.forward;
  const Shape& shape = forward.x.shape();
  const Shape rows = rows_of_heads(shape);
  with_floating_type(forward.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const HeadFactors<T> factors = {forward.factor.data<A>(), shape.width(), forward.by_row()};
    if (call.dx.defined())
      parallel_elements(
          backend, rows, HeadScaleAt<T>{factors, call.dy.data<T>(), call.dx.data<T>()});
    if (call.dfactor.defined())
      parallel_elements(
          backend,
          {rows[0], shape[-2]},
          HeadFactorGradientAt<T>{
              forward.x.data<T>(), call.dy.data<T>(), shape.width(), call.dfactor.data<A>()});
  });
}

}  // namespace longspan
