#include "framework/kernels/attention/shared/sequence_softmax.h"

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

// Calls f(i) for every i below count, each with a cost in elements.
template <typename F>
void each(std::int64_t count, std::int64_t elements, const F& f) {
  for_ranges(count, elements, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

template <typename A>
const A* elements_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<A>() : nullptr;
}

}  // namespace

void softmax_rows(Cpu, const Tensor& x, const Tensor& y) {
  require_same_shape("softmax_rows", x, y);
  const std::int64_t width = x.shape().width();
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    each(x.shape().rows(), width, SoftmaxRow<T>{width, x.data<T>(), y.data<T>()});
  });
}

void softmax_rows_backward(Cpu, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  require_same_shape("softmax_rows_backward", y, dy);
  require_same_shape("softmax_rows_backward", y, dx);
  const std::int64_t width = y.shape().width();
  with_floating_type(y.dtype(), [&]<typename T>(TypeTag<T>) {
    each(y.shape().rows(),
         width,
         SoftmaxRowGradient<T>{width, y.data<T>(), dy.data<T>(), dx.data<T>()});
  });
}

void max_over_positions(Cpu, const Tensor& x, const Tensor& log_weight, const Tensor& tops) {
  const Shape& shape = x.shape();
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    each(
        tops.elements(),
        shape[1],
        LargestOfPositions<T>{
            shape[1], shape[2], shape[3], x.data<T>(), elements_of<A>(log_weight), tops.data<A>()});
  });
}

void exponentials_of_positions(
    Cpu, const Tensor& x, const Tensor& log_weight, const Tensor& tops, const Tensor& y) {
  require_same_shape("exponentials_of_positions", x, y);
  const Shape& shape = x.shape();
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    each(x.elements(),
         1,
         ExponentialOfPosition<T>{shape[1],
                                  shape[2],
                                  shape[3],
                                  x.data<T>(),
                                  elements_of<A>(log_weight),
                                  tops.data<A>(),
                                  y.data<T>()});
  });
}

void divide_states(Cpu, const Tensor& states) {
  const std::int64_t columns = states.shape().width();
  with_floating_type(states.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    each(states.shape().rows(), columns, DivideState<A>{columns, states.data<A>()});
  });
}

void divide_states_backward(Cpu, const Tensor& states, const Tensor& gradients) {
  require_same_shape("divide_states_backward", states, gradients);
  const std::int64_t columns = states.shape().width();
  with_floating_type(states.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    each(states.shape().rows(),
         columns,
         DivideStateGradient<A>{columns, states.data<A>(), gradients.data<A>()});
  });
}

}  // namespace longspan
