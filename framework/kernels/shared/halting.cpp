// Adaptive computation time.
#include "framework/kernels/halting.h"

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/shared/halting.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

template <typename A>
struct DecideHalting {
  const A* logits;
  const A* sums;
  const std::uint8_t* before;
  std::uint8_t* now;
  A threshold;
  bool last;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const bool under_way = before[i] == Halting::running;
    const bool halts = last || sums[i] + sigmoid(logits[i]) >= threshold;
    now[i] = !under_way ? Halting::rests : halts ? Halting::halts : Halting::running;
  }
};

template <typename A>
struct WeighStep {
  const A* logits;
  const A* sums;
  const A* costs;
  const std::uint8_t* now;
  A* weights;
  A* next_sums;
  A* next_costs;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const A probability = sigmoid(logits[i]);
    const bool goes_on = now[i] == Halting::running;
    const bool halts = now[i] == Halting::halts;
    const A rest = A{1} - sums[i];
    weights[i] = goes_on ? probability : halts ? rest : A{0};
    next_sums[i] = goes_on ? sums[i] + probability : halts ? A{1} : sums[i];
    next_costs[i] = goes_on ? costs[i] + A{1} : halts ? costs[i] + A{1} + rest : costs[i];
  }
};

template <typename A>
struct WeighStepBackward {
  const A* logits;
  const std::uint8_t* now;
  const A* dweights;
  const A* dnext_sums;
  const A* dnext_costs;
  A* dlogits;
  A* dsums;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const A probability = sigmoid(logits[i]);
    const A dweight = dweights == nullptr ? A{0} : dweights[i];
    const A dnext_sum = dnext_sums == nullptr ? A{0} : dnext_sums[i];
    const A dnext_cost = dnext_costs == nullptr ? A{0} : dnext_costs[i];
    const bool goes_on = now[i] == Halting::running;
    const bool halts = now[i] == Halting::halts;
    dlogits[i] = goes_on ? (dweight + dnext_sum) * probability * (A{1} - probability) : A{0};
    dsums[i] = halts ? -dweight - dnext_cost : dnext_sum;
  }
};

template <typename T>
struct JoinElement {
  using A = Accumulator<T>;
  const T* x;
  const A* weights;
  const A* before;
  std::int64_t width;
  bool interpolate;

  LONGSPAN_HOST_DEVICE A operator()(std::int64_t i) const {
    const A weight = weights[i / width];
    const A added = weight * wide(x[i]);
    if (before == nullptr) return added;
    return interpolate ? (A{1} - weight) * before[i] + added : before[i] + added;
  }
};

// dy times the weight of each row, or times its complement for interpolated rows.
template <typename A>
struct WeighedGradient {
  const A* dy;
  const A* weights;
  std::int64_t width;
  bool rest;

  LONGSPAN_HOST_DEVICE A operator()(std::int64_t i) const {
    const A weight = weights[i / width];
    return (rest ? A{1} - weight : weight) * dy[i];
  }
};

template <typename T>
struct ChooseElement {
  const std::uint8_t* now;
  const T* moving;
  const T* resting;
  std::int64_t width;

  LONGSPAN_HOST_DEVICE T operator()(std::int64_t i) const {
    const T* const from = now[i / width] != Halting::rests ? moving : resting;
    return from == nullptr ? T{} : from[i];
  }
};

}  // namespace

void decide_halting(Backend backend, const HaltingDecision& call) {
  check(call);
  const auto run = [&]<typename A>(TypeTag<A>) {
    for_each_element(backend,
                     call.logits.elements(),
                     DecideHalting<A>{call.logits.data<A>(),
                                      call.sums.data<A>(),
                                      call.before.data<std::uint8_t>(),
                                      call.now.data<std::uint8_t>(),
                                      static_cast<A>(call.threshold),
                                      call.last});
  };
  call.logits.dtype() == DType::f64 ? run(TypeTag<double>()) : run(TypeTag<float>());
}

void halting_weights(Backend backend, const HaltingWeights& call) {
  check(call);
  const auto run = [&]<typename A>(TypeTag<A>) {
    for_each_element(backend,
                     call.logits.elements(),
                     WeighStep<A>{call.logits.data<A>(),
                                  call.sums.data<A>(),
                                  call.costs.data<A>(),
                                  call.now.data<std::uint8_t>(),
                                  call.weights.data<A>(),
                                  call.next_sums.data<A>(),
                                  call.next_costs.data<A>()});
  };
  call.logits.dtype() == DType::f64 ? run(TypeTag<double>()) : run(TypeTag<float>());
}

void halting_weights_backward(Backend backend, const HaltingWeightsGradient& call) {
  check(call);
  const auto run = [&]<typename A>(TypeTag<A>) {
    for_each_element(backend,
                     call.logits.elements(),
                     WeighStepBackward<A>{call.logits.data<A>(),
                                          call.now.data<std::uint8_t>(),
                                          elements_or_null<A>(call.dweights),
                                          elements_or_null<A>(call.dnext_sums),
                                          elements_or_null<A>(call.dnext_costs),
                                          call.dlogits.data<A>(),
                                          call.dsums.data<A>()});
  };
  call.logits.dtype() == DType::f64 ? run(TypeTag<double>()) : run(TypeTag<float>());
}

void accumulate_states(Backend backend, const JoinRows& call) {
  check(call);
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    write_elements(backend,
                   call.x.elements(),
                   call.y.data<A>(),
                   JoinElement<T>{call.x.data<T>(),
                                  call.weights.data<A>(),
                                  elements_or_null<A>(call.before),
                                  call.x.shape().width(),
                                  call.join == StateAccumulation::interpolate});
  });
}

void join_rows_backward(Backend backend, const JoinRowsGradient& call) {
  check(call);
  // Must precede the writes to dbefore, which may alias dy.
  if (call.dweights.defined()) sum_weight_gradients(backend, call);
  with_floating_type(call.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const std::int64_t count = call.dy.elements(), width = call.dy.shape().width();
    const WeighedGradient<A> weighed = {call.dy.data<A>(), call.weights.data<A>(), width, false};
    if (call.dx.defined()) write_elements(backend, count, call.dx.data<T>(), weighed);
    if (!call.dbefore.defined()) return;
    WeighedGradient<A> rest = weighed;
    rest.rest = true;
    write_elements(backend, count, call.dbefore.data<A>(), rest);
  });
}

void select_rows(Backend backend, const ChooseRows& call) {
  check(call);
  with_floating_type(call.y.dtype(), [&]<typename T>(TypeTag<T>) {
    write_elements(backend,
                   call.y.elements(),
                   call.y.data<T>(),
                   ChooseElement<T>{call.now.data<std::uint8_t>(),
                                    elements_or_null<T>(call.moving),
                                    elements_or_null<T>(call.resting),
                                    call.y.shape().width()});
  });
}

}  // namespace longspan
