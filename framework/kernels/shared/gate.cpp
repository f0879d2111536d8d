// Gates of residual connections.
#include "framework/kernels/gate.h"

#include <type_traits>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

// Inputs of a gate at element i, which has feature c. All inputs are read before any output is
// written, because they may alias.
template <GateFunction function, typename T>
struct GateInputs {
  using A = Accumulator<T>;
  const T* x;
  const T* change;
  const T* logits;
  const A* bias;

  struct At {
    A x;
    A change;  // after its activation
    A opening;
  };

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE At at(std::int64_t i, std::int64_t c) const {
    A logit = wide(logits[i]);
    if constexpr (function == GateFunction::highway)
      logit += bias[c];
    else if constexpr (has_bias(function))
      logit -= bias[c];
    A mixed = 0;
    if constexpr (has_change(function)) mixed = wide(change[i]);
    if constexpr (function == GateFunction::sigtanh || function == GateFunction::gru)
      mixed = tanh(mixed);
    return {wide(x[i]), mixed, sigmoid(logit)};
  }
};

template <GateFunction function, typename T>
struct GateAt {
  using A = Accumulator<T>;
  GateInputs<function, T> inputs;
  T* y;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                              std::int64_t c) const {
    using enum GateFunction;
    const auto [x, change, open] = inputs.at(i, c);
    if constexpr (function == reset) put(y[i], open * x);
    if constexpr (function == input) put(y[i], open * x + change);
    if constexpr (function == output || function == sigtanh) put(y[i], x + open * change);
    if constexpr (function == highway) put(y[i], open * x + (A{1} - open) * change);
    if constexpr (function == gru) put(y[i], (A{1} - open) * x + open * change);
  }
};

template <GateFunction function, typename T>
struct GateBackwardAt {
  using A = Accumulator<T>;
  GateInputs<function, T> inputs;
  const T* dy;
  T* dx;
  T* dchange;
  T* dlogits;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i,
                                                              std::int64_t c) const {
    using enum GateFunction;
    const auto [x, change, open] = inputs.at(i, c);
    const A above = wide(dy[i]);
    // Derivatives of y with respect to x, the activated change, and the opening of the gate.
    A by_x = 1, by_opening = 0;
    [[maybe_unused]] A by_change = 1;
    if constexpr (function == reset || function == input) {
      by_x = open;
      by_opening = x;
    }
    if constexpr (function == output || function == sigtanh) {
      by_change = open;
      by_opening = change;
    }
    if constexpr (function == highway) {
      by_x = open;
      by_change = A{1} - open;
      by_opening = x - change;
    }
    if constexpr (function == gru) {
      by_x = A{1} - open;
      by_change = open;
      by_opening = change - x;
    }
    if constexpr (function == sigtanh || function == gru) by_change *= A{1} - change * change;
    put(dlogits[i], above * by_opening * open * (A{1} - open));
    if constexpr (has_change(function)) put(dchange[i], above * by_change);
    put(dx[i], above * by_x);
  }
};

template <typename F>
void with_gate_function(GateFunction function, const F& f) {
  using enum GateFunction;
  switch (function) {
    case reset:
      return f(std::integral_constant<GateFunction, reset>{});
    case input:
      return f(std::integral_constant<GateFunction, input>{});
    case output:
      return f(std::integral_constant<GateFunction, output>{});
    case highway:
      return f(std::integral_constant<GateFunction, highway>{});
    case sigtanh:
      return f(std::integral_constant<GateFunction, sigtanh>{});
    case gru:
      return f(std::integral_constant<GateFunction, gru>{});
  }
}

template <GateFunction function, typename T, typename Tensors>
GateInputs<function, T> inputs_of(const Tensors& gate) {
  return {gate.x.template data<T>(),
          elements_or_null<T>(gate.change),
          gate.logits.template data<T>(),
          elements_or_null<Accumulator<T>>(gate.bias)};
}

}  // namespace

void gate(Backend backend, const Gating& gating) {
  check(gating);
  with_floating_type(gating.x.dtype(), [&]<typename T>(TypeTag<T>) {
    with_gate_function(gating.function, [&](auto function) {
      parallel_elements(
          backend,
          gating.x.shape(),
          GateAt<function(), T>{inputs_of<function(), T>(gating), gating.y.data<T>()});
    });
  });
}

void gate_backward(Backend backend, const GatingGradient& gating) {
  check(gating);
  with_floating_type(gating.x.dtype(), [&]<typename T>(TypeTag<T>) {
    with_gate_function(gating.function, [&](auto function) {
      parallel_elements(backend,
                        gating.x.shape(),
                        GateBackwardAt<function(), T>{inputs_of<function(), T>(gating),
                                                      gating.dy.data<T>(),
                                                      gating.dx.data<T>(),
                                                      elements_or_null<T>(gating.dchange),
                                                      gating.dlogits.data<T>()});
    });
  });
}

}  // namespace longspan
