// Step sizes, decay gates and factors of heads.
#include "framework/kernels/recurrence_gates.h"

#include <type_traits>

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

// The step size of a decay gate, and its slope. is_step is a template argument, since a branch on a
// member would prevent vectorization.
template <bool is_step, typename A>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline A step_of(A x) {
  return is_step ? x : softplus(x);
}
template <bool is_step, typename A>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline A slope_of(A x) {
  return is_step ? A{1} : sigmoid(x);
}

// Groups are the gates of a head.
template <bool is_step, typename T>
struct DecayOfHeads {
  using A = Accumulator<T>;
  struct Head {
    A rate;
    const T* x;
    A* g;

    [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                                std::int64_t) const {
      g[i] = rate * step_of<is_step>(wide(x[i]));
    }
  };
  const T* x;
  const A* log_rate;
  std::int64_t heads;
  A* g;

  LONGSPAN_HOST_DEVICE Head of(std::int64_t head) const {
    return {-fast_exp(log_rate[head % heads]), x, g};
  }
};

template <bool is_step, typename T>
struct DecayGradientOfHeads {
  using A = Accumulator<T>;
  struct Head {
    A rate;
    const T* x;
    const A* dg;
    T* dx;

    [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                                std::int64_t) const {
      put(dx[i], dg[i] * rate * slope_of<is_step>(wide(x[i])));
    }
  };
  const T* x;
  const A *log_rate, *dg;
  std::int64_t heads;
  T* dx;

  LONGSPAN_HOST_DEVICE Head of(std::int64_t head) const {
    return {-fast_exp(log_rate[head % heads]), x, dg, dx};
  }
};

// One item is a head of a row.
template <bool is_step, typename T>
struct DecayRateGradient {
  using A = Accumulator<T>;
  const T* x;
  const A *log_rate, *dg;
  std::int64_t heads, each;
  A* drate;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t head) const {
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = head * each; c < (head + 1) * each; ++c)
      sum += dg[c] * step_of<is_step>(wide(x[c]));
    drate[head] = -fast_exp(log_rate[head % heads]) * sum;
  }
};

// Groups are the elements of a head.
template <typename T>
struct ScaleHeads {
  using A = Accumulator<T>;
  struct Head {
    A factor;
    const T* x;
    T* y;

    [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                                std::int64_t) const {
      put(y[i], factor * wide(x[i]));
    }
  };
  const A* factor;
  std::int64_t factors;  // of one row, or of all
  const T* x;
  T* y;

  LONGSPAN_HOST_DEVICE Head of(std::int64_t head) const { return {factor[head % factors], x, y}; }
};

// Heads of one element, with a factor for each or for each column.
template <bool by_row, typename T>
struct ScaleElements {
  using A = Accumulator<T>;
  const A* factor;
  const T* x;
  T* y;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                              std::int64_t c) const {
    put(y[i], factor[by_row ? i : c] * wide(x[i]));
  }
};

template <typename T>
struct ElementFactorGradient {
  using A = Accumulator<T>;
  const T *x, *dy;
  A* dfactor;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    dfactor[i] = wide(x[i]) * wide(dy[i]);
  }
};

template <typename T>
struct HeadFactorGradient {
  using A = Accumulator<T>;
  const T *x, *dy;
  std::int64_t each;
  A* dfactor;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t head) const {
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = head * each; c < (head + 1) * each; ++c) sum += wide(x[c]) * wide(dy[c]);
    dfactor[head] = sum;
  }
};

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

namespace {

// f(TypeTag<T>, is_step) for a gate of x.
template <typename F>
void with_step(const DecayGate& call, const F& f) {
  with_floating_type(call.x.dtype(), [&](auto tag) {
    if (call.is_step)
      f(tag, std::true_type());
    else
      f(tag, std::false_type());
  });
}

}  // namespace

void decay_gate(Backend backend, const DecayGate& call) {
  check(call);
  with_step(call, [&]<typename T>(TypeTag<T>, auto is_step) {
    using A = Accumulator<T>;
    const std::int64_t heads = call.log_rate.elements();
    parallel_groups(backend,
                    call.x.shape().rows() * heads,
                    call.x.shape().width() / heads,
                    DecayOfHeads<is_step(), T>{
                        call.x.data<T>(), call.log_rate.data<A>(), heads, call.g.data<A>()});
  });
}

void decay_gate_backward(Backend backend, const DecayGateGradient& call) {
  check(call);
  const DecayGate& forward = call.forward;
  with_step(forward, [&]<typename T>(TypeTag<T>, auto is_step) {
    using A = Accumulator<T>;
    const T* const x = forward.x.data<T>();
    const A* const log_rate = forward.log_rate.data<A>();
    const A* const dg = call.dg.data<A>();
    const std::int64_t heads = forward.log_rate.elements();
    const std::int64_t each = forward.x.shape().width() / heads;
    const std::int64_t all = forward.x.shape().rows() * heads;
    parallel_groups(backend,
                    all,
                    each,
                    DecayGradientOfHeads<is_step(), T>{x, log_rate, dg, heads, call.dx.data<T>()});
    parallel_rows(
        backend,
        all,
        each,
        DecayRateGradient<is_step(), T>{x, log_rate, dg, heads, each, call.drate.data<A>()});
  });
}

namespace {

// y = factor x, with the factors of a call.
template <typename T>
void scale_by(Backend backend, const HeadScale& call, const Tensor& x, const Tensor& y) {
  using A = Accumulator<T>;
  const Shape& shape = x.shape();
  const A* const factor = call.factor.data<A>();
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
  const std::int64_t each = shape.width(), factors = call.factor.elements();
  const Shape rows = {shape.elements() / (shape[-2] * each), shape[-2]};
  if (each > 1)
    parallel_groups(
        backend, shape.elements() / each, each, ScaleHeads<T>{factor, factors, from, to});
  else if (call.by_row())
    parallel_elements(backend, rows, ScaleElements<true, T>{factor, from, to});
  else
    parallel_elements(backend, rows, ScaleElements<false, T>{factor, from, to});
}

}  // namespace

void head_scale(Backend backend, const HeadScale& call) {
  check(call);
  with_floating_type(call.x.dtype(),
                     [&]<typename T>(TypeTag<T>) { scale_by<T>(backend, call, call.x, call.y); });
}

void head_scale_backward(Backend backend, const HeadScaleGradient& call) {
  check(call);
  const HeadScale& forward = call.forward;
  const std::int64_t each = forward.x.shape().width(), heads = forward.x.elements() / each;
  const Shape rows = {heads / forward.x.shape()[-2], forward.x.shape()[-2]};
  with_floating_type(forward.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    if (call.dx.defined()) scale_by<T>(backend, forward, call.dy, call.dx);
    if (!call.dfactor.defined()) return;
    const T *const x = forward.x.data<T>(), *const dy = call.dy.data<T>();
    A* const dfactor = call.dfactor.data<A>();
    if (each > 1)
      parallel_rows(backend, heads, each, HeadFactorGradient<T>{x, dy, each, dfactor});
    else
      parallel_elements(backend, rows, ElementFactorGradient<T>{x, dy, dfactor});
  });
}

}  // namespace longspan
