#include "framework/kernels/optimizer.h"

#include <cmath>

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

void require_alike(const char* kernel, const char* name, const Tensor& x, const Tensor& weight) {
  require(x.defined() && x.elements() == weight.elements() && x.dtype() == weight.dtype(),
          "{}: {} is {} {}, the weight {} {}, wanted the same dtype and length",
          kernel,
          name,
          name_of(x.dtype()),
          x.shape().to_string(),
          name_of(weight.dtype()),
          weight.shape().to_string());
}

void require_range(const char* kernel, const OptimizerRange& range) {
  const DType dtype = range.weight.dtype();
  require(dtype == DType::f32 || dtype == DType::f64,
          "{}: the weight is {}, wanted f32 or f64",
          kernel,
          name_of(dtype));
  require_alike(kernel, "gradient", range.gradient, range.weight);
  if (range.compute.defined())
    require(is_floating(range.compute.dtype()) && size_of(range.compute.dtype()) < size_of(dtype) &&
                range.compute.elements() == range.weight.elements(),
            "{}: compute is {} {}, the weight {} {}, wanted as many of a narrower dtype",
            kernel,
            name_of(range.compute.dtype()),
            range.compute.shape().to_string(),
            name_of(dtype),
            range.weight.shape().to_string());
}

// Calls f(TypeTag<W>, store) with the weight's type; store(i, value) rounds a new weight into
// `compute`, or does nothing where there is none.
template <typename F>
void with_range(const OptimizerRange& range, const F& f) {
  const auto with_store = [&](auto weight_tag) {
    using W = typename decltype(weight_tag)::type;
    if (!range.compute.defined()) return f(weight_tag, [](std::int64_t, W) {});
    with_floating_type(range.compute.dtype(), [&](auto compute_tag) {
      using C = typename decltype(compute_tag)::type;
      C* compute = range.compute.data<C>();
      f(weight_tag, [compute](std::int64_t i, W value) { put(compute[i], value); });
    });
  };
  if (range.weight.dtype() == DType::f64)
    with_store(TypeTag<double>{});
  else
    with_store(TypeTag<float>{});
}

// What one element of Adam needs, computed once in double.
template <typename W>
struct AdamFactors {
  explicit AdamFactors(const AdamUpdate& update)
      : gradient(static_cast<W>(update.range.gradient_factor)),
        beta1(static_cast<W>(update.beta1)),
        rest1(static_cast<W>(1 - update.beta1)),
        beta2(static_cast<W>(update.beta2)),
        rest2(static_cast<W>(1 - update.beta2)),
        epsilon(static_cast<W>(update.epsilon)) {
    const auto step = static_cast<double>(update.step);
    const OptimizerRange& range = update.range;
    rate = static_cast<W>(range.learning_rate / (1 - std::pow(update.beta1, step)));
    root = static_cast<W>(1 / std::sqrt(1 - std::pow(update.beta2, step)));
    keep = static_cast<W>(update.decoupled ? 1 - range.learning_rate * range.weight_decay : 1);
    decay = static_cast<W>(update.decoupled ? 0 : range.weight_decay);
  }

  W gradient, beta1, rest1, beta2, rest2, epsilon;
  W rate, root, keep, decay;
};

}  // namespace

void adam_update(Cpu, const AdamUpdate& update) {
  const OptimizerRange& range = update.range;
  require_range("adam_update", range);
  require_alike("adam_update", "first", update.first, range.weight);
  require_alike("adam_update", "second", update.second, range.weight);
  require(update.step >= 1, "adam_update: step is {}, wanted at least 1", update.step);
  with_range(range, [&](auto tag, auto store) {
    using W = typename decltype(tag)::type;
    W* weight = range.weight.data<W>();
    const W* gradient = range.gradient.data<W>();
    W *first = update.first.data<W>(), *second = update.second.data<W>();
    const AdamFactors<W> by(update);
    for_elements(range.weight.elements(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        const W g = by.gradient * gradient[i] + by.decay * weight[i];
        const W m = by.beta1 * first[i] + by.rest1 * g;
        const W v = by.beta2 * second[i] + by.rest2 * g * g;
        const W next = by.keep * weight[i] - by.rate * m / (std::sqrt(v) * by.root + by.epsilon);
        first[i] = m;
        second[i] = v;
        weight[i] = next;
        store(i, next);
      }
    });
  });
}

void sgd_update(Cpu, const SgdUpdate& update) {
  const OptimizerRange& range = update.range;
  require_range("sgd_update", range);
  require(update.step >= 1, "sgd_update: step is {}, wanted at least 1", update.step);
  const bool momentum = update.momentum != 0;
  if (momentum) require_alike("sgd_update", "buffer", update.buffer, range.weight);
  with_range(range, [&](auto tag, auto store) {
    using W = typename decltype(tag)::type;
    W* weight = range.weight.data<W>();
    const W* gradient = range.gradient.data<W>();
    const W factor = static_cast<W>(range.gradient_factor);
    const W decay = static_cast<W>(range.weight_decay);
    const W rate = static_cast<W>(range.learning_rate);
    if (!momentum) {
      for_elements(range.weight.elements(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          const W next = weight[i] - rate * (factor * gradient[i] + decay * weight[i]);
          weight[i] = next;
          store(i, next);
        }
      });
      return;
    }
    W* buffer = update.buffer.data<W>();
    const W by = static_cast<W>(update.momentum);
    const bool start = update.step == 1, nesterov = update.nesterov;
    for_elements(range.weight.elements(), [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        const W g = factor * gradient[i] + decay * weight[i];
        // At step 1 the buffer is written, not read.
        const W b = start ? g : by * buffer[i] + g;
        const W next = weight[i] - rate * (nesterov ? g + by * b : b);
        buffer[i] = b;
        weight[i] = next;
        store(i, next);
      }
    });
  });
}

}  // namespace longspan
