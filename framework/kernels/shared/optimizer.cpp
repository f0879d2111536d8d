// Optimizer updates.
#include "framework/kernels/optimizer.h"

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/shared/optimizer.h"

namespace longspan {
namespace {

// Per-step constants of Adam, computed once in double.
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
    rate = static_cast<W>(range.learning_rate * update.rectification /
                          (1 - std::pow(update.beta1, step)));
    root = static_cast<W>(1 / std::sqrt(1 - std::pow(update.beta2, step)));
    if (!update.adapts) {
      root = 0;
      epsilon = 1;
    }
    decay_factor =
        static_cast<W>(update.decoupled ? 1 - range.learning_rate * range.weight_decay : 1);
    decay = static_cast<W>(update.decoupled ? 0 : range.weight_decay);
  }

  W gradient, beta1, rest1, beta2, rest2, epsilon;
  W rate, root, decay_factor, decay;
};

template <typename W, typename C>
struct Adam {
  AdamFactors<W> by;
  const W* gradient;
  W* weight;
  W* first;
  W* second;
  Store<C> store;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W g = by.gradient * gradient[i] + by.decay * weight[i];
    const W m = by.beta1 * first[i] + by.rest1 * g;
    const W v = by.beta2 * second[i] + by.rest2 * g * g;
    const W next =
        by.decay_factor * weight[i] - by.rate * m / (std::sqrt(v) * by.root + by.epsilon);
    first[i] = m;
    second[i] = v;
    weight[i] = next;
    store(i, next);
  }
};

template <typename W, typename C>
struct Sgd {
  W factor, decay, rate;
  const W* gradient;
  W* weight;
  Store<C> store;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W next = weight[i] - rate * (factor * gradient[i] + decay * weight[i]);
    weight[i] = next;
    store(i, next);
  }
};

template <typename W, typename C>
struct Momentum {
  W factor, decay, rate, by;
  bool start, nesterov;
  const W* gradient;
  W* weight;
  W* buffer;
  Store<C> store;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W g = factor * gradient[i] + decay * weight[i];
    // At step 1 the buffer is written without being read.
    const W b = start ? g : by * buffer[i] + g;
    const W next = weight[i] - rate * (nesterov ? g + by * b : b);
    buffer[i] = b;
    weight[i] = next;
    store(i, next);
  }
};

template <typename W, typename C>
struct Lion {
  W factor, beta1, rest1, beta2, rest2, rate, decay;
  const W* gradient;
  W* weight;
  W* first;
  Store<C> store;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W g = factor * gradient[i];
    const W direction = beta1 * first[i] + rest1 * g;
    const W sign = static_cast<W>(direction > 0) - static_cast<W>(direction < 0);
    const W next = weight[i] - rate * (sign + decay * weight[i]);
    first[i] = beta2 * first[i] + rest2 * g;
    weight[i] = next;
    store(i, next);
  }
};

template <typename W, typename C>
struct Adagrad {
  W factor, decay, rate, epsilon;
  const W* gradient;
  W* weight;
  W* sum;
  Store<C> store;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W g = factor * gradient[i] + decay * weight[i];
    const W total = sum[i] + g * g;
    const W next = weight[i] - rate * g / (std::sqrt(total) + epsilon);
    sum[i] = total;
    weight[i] = next;
    store(i, next);
  }
};

template <typename W, typename C>
struct ScheduleFree {
  W factor, beta1, rest1, beta2, rest2, rate, epsilon, decay, share;
  const W* gradient;
  W* weight;
  W* fast;
  W* second;
  Store<C> store;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W g = factor * gradient[i];
    const W v = beta2 * second[i] + rest2 * g * g;
    const W y = beta1 * weight[i] + rest1 * fast[i];
    const W z = fast[i] - rate * (g / (std::sqrt(v) + epsilon) + decay * y);
    const W x = weight[i] + share * (z - weight[i]);
    second[i] = v;
    fast[i] = z;
    weight[i] = x;
    store(i, beta1 * x + rest1 * z);
  }
};

template <typename W, typename C>
struct Interpolate {
  W share, rest;
  const W* a;
  const W* b;
  Store<C> store;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    store(i, share * a[i] + rest * b[i]);
  }
};

}  // namespace

void lion_update(Backend backend, const LionUpdate& update) {
  check(update);
  const OptimizerRange& range = update.range;
  with_range(range, [&]<typename W, typename C>(TypeTag<W>, Store<C> store) {
    for_each_element(backend,
                     range.weight.elements(),
                     Lion<W, C>{static_cast<W>(range.gradient_factor),
                                static_cast<W>(update.beta1),
                                static_cast<W>(1 - update.beta1),
                                static_cast<W>(update.beta2),
                                static_cast<W>(1 - update.beta2),
                                static_cast<W>(range.learning_rate),
                                static_cast<W>(range.weight_decay),
                                range.gradient.data<W>(),
                                range.weight.data<W>(),
                                update.first.data<W>(),
                                store});
  });
}

void adagrad_update(Backend backend, const AdagradUpdate& update) {
  check(update);
  const OptimizerRange& range = update.range;
  with_range(range, [&]<typename W, typename C>(TypeTag<W>, Store<C> store) {
    for_each_element(backend,
                     range.weight.elements(),
                     Adagrad<W, C>{static_cast<W>(range.gradient_factor),
                                   static_cast<W>(range.weight_decay),
                                   static_cast<W>(range.learning_rate),
                                   static_cast<W>(update.epsilon),
                                   range.gradient.data<W>(),
                                   range.weight.data<W>(),
                                   update.sum.data<W>(),
                                   store});
  });
}

void schedule_free_update(Backend backend, const ScheduleFreeUpdate& update) {
  check(update);
  const OptimizerRange& range = update.range;
  const double root = std::sqrt(1 - std::pow(update.beta2, static_cast<double>(update.step)));
  with_range(range, [&]<typename W, typename C>(TypeTag<W>, Store<C> store) {
    for_each_element(backend,
                     range.weight.elements(),
                     ScheduleFree<W, C>{static_cast<W>(range.gradient_factor),
                                        static_cast<W>(update.beta1),
                                        static_cast<W>(1 - update.beta1),
                                        static_cast<W>(update.beta2),
                                        static_cast<W>(1 - update.beta2),
                                        static_cast<W>(range.learning_rate * root),
                                        static_cast<W>(update.epsilon),
                                        static_cast<W>(range.weight_decay),
                                        static_cast<W>(update.share),
                                        range.gradient.data<W>(),
                                        range.weight.data<W>(),
                                        update.fast.data<W>(),
                                        update.second.data<W>(),
                                        store});
  });
}

void interpolate(
    Backend backend, double share, const Tensor& a, const Tensor& b, const Tensor& out) {
  check_interpolate(a, b, out);
  with_weight(a, out, [&]<typename W, typename C>(TypeTag<W>, Store<C> store) {
    for_each_element(
        backend,
        a.elements(),
        Interpolate<W, C>{
            static_cast<W>(share), static_cast<W>(1 - share), a.data<W>(), b.data<W>(), store});
  });
}

void adam_update(Backend backend, const AdamUpdate& update) {
  check(update);
  const OptimizerRange& range = update.range;
  with_range(range, [&]<typename W, typename C>(TypeTag<W>, Store<C> store) {
    for_each_element(backend,
                     range.weight.elements(),
                     Adam<W, C>{AdamFactors<W>(update),
                                range.gradient.data<W>(),
                                range.weight.data<W>(),
                                update.first.data<W>(),
                                update.second.data<W>(),
                                store});
  });
}

void sgd_update(Backend backend, const SgdUpdate& update) {
  check(update);
  const OptimizerRange& range = update.range;
  with_range(range, [&]<typename W, typename C>(TypeTag<W>, Store<C> store) {
    const W factor = static_cast<W>(range.gradient_factor);
    const W decay = static_cast<W>(range.weight_decay);
    const W rate = static_cast<W>(range.learning_rate);
    const W* gradient = range.gradient.data<W>();
    W* weight = range.weight.data<W>();
    const std::int64_t count = range.weight.elements();
    if (update.momentum == 0) {
      for_each_element(backend, count, Sgd<W, C>{factor, decay, rate, gradient, weight, store});
      return;
    }
    for_each_element(backend,
                     count,
                     Momentum<W, C>{factor,
                                    decay,
                                    rate,
                                    static_cast<W>(update.momentum),
                                    update.step == 1,
                                    update.nesterov,
                                    gradient,
                                    weight,
                                    update.buffer.data<W>(),
                                    store});
  });
}

}  // namespace longspan
