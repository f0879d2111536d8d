// Preconditioned update directions.
#include "framework/kernels/precondition.h"

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/shared/optimizer.h"

namespace longspan {
namespace {

template <typename W>
struct AdamDirectionOf {
  W factor, beta1, rest1, beta2, rest2, epsilon, decay, first_by, root;
  W* gradient;
  const W* weight;
  W* first;
  W* second;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W g = factor * gradient[i];
    const W m = beta1 * first[i] + rest1 * g;
    const W v = beta2 * second[i] + rest2 * g * g;
    first[i] = m;
    second[i] = v;
    gradient[i] = first_by * m / (std::sqrt(v) * root + epsilon) + decay * weight[i];
  }
};

template <typename W>
struct MomentumDirectionOf {
  W factor, by;
  bool nesterov;
  W* gradient;
  W* buffer;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W g = factor * gradient[i];
    const W b = by * buffer[i] + g;
    buffer[i] = b;
    gradient[i] = nesterov ? g + by * b : b;
  }
};

template <typename W>
struct RootDirectionOf {
  W factor, beta2, rest2, epsilon;
  W* gradient;
  W* second;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W g = factor * gradient[i];
    const W v = beta2 * second[i] + rest2 * (g * g + epsilon);
    second[i] = v;
    gradient[i] = g / std::sqrt(v);
  }
};

template <typename W>
struct ScaleLines {
  double factor;
  std::int64_t first, rows, columns;
  const double* by_row;
  const double* by_column;
  W* elements;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = (first + i) / columns;
    const std::int64_t column = row / rows * columns + (first + i) % columns;
    elements[i] =
        static_cast<W>(factor * static_cast<double>(elements[i]) * by_row[row] * by_column[column]);
  }
};

template <typename W, typename C>
struct Directed {
  W keep, rate;
  const W* direction;
  W* weight;
  Store<C> store;

  [[gnu::always_inline]] LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const W next = keep * weight[i] - rate * direction[i];
    weight[i] = next;
    store(i, next);
  }
};

}  // namespace

void adam_precondition(Backend backend, const AdamPrecondition& step) {
  check(step);
  const auto number = static_cast<double>(step.step);
  const double first_by = step.corrects_bias ? 1 / (1 - std::pow(step.beta1, number)) : 1;
  const double root = step.corrects_bias ? 1 / std::sqrt(1 - std::pow(step.beta2, number)) : 1;
  with_accumulator_type(step.weight.dtype(), [&]<typename W>(TypeTag<W>) {
    for_each_element(backend,
                     step.weight.elements(),
                     AdamDirectionOf<W>{static_cast<W>(step.gradient_factor),
                                        static_cast<W>(step.beta1),
                                        static_cast<W>(1 - step.beta1),
                                        static_cast<W>(step.beta2),
                                        static_cast<W>(1 - step.beta2),
                                        static_cast<W>(step.epsilon),
                                        static_cast<W>(step.weight_decay),
                                        static_cast<W>(first_by),
                                        static_cast<W>(root),
                                        step.gradient.data<W>(),
                                        step.weight.data<W>(),
                                        step.first.data<W>(),
                                        step.second.data<W>()});
  });
}

void momentum_step(Backend backend, const MomentumStep& step) {
  check(step);
  with_accumulator_type(step.gradient.dtype(), [&]<typename W>(TypeTag<W>) {
    for_each_element(backend,
                     step.gradient.elements(),
                     MomentumDirectionOf<W>{static_cast<W>(step.gradient_factor),
                                            static_cast<W>(step.momentum),
                                            step.nesterov,
                                            step.gradient.data<W>(),
                                            step.buffer.data<W>()});
  });
}

void rms_precondition(Backend backend, const RmsPrecondition& step) {
  check(step);
  with_accumulator_type(step.gradient.dtype(), [&]<typename W>(TypeTag<W>) {
    for_each_element(backend,
                     step.gradient.elements(),
                     RootDirectionOf<W>{static_cast<W>(step.gradient_factor),
                                        static_cast<W>(step.beta2),
                                        static_cast<W>(1 - step.beta2),
                                        static_cast<W>(step.epsilon),
                                        step.gradient.data<W>(),
                                        step.second.data<W>()});
  });
}

void scale_lines(Backend backend, double factor, const MatrixPart& part) {
  check("scale_lines", part);
  with_accumulator_type(part.elements.dtype(), [&]<typename W>(TypeTag<W>) {
    for_each_element(backend,
                     part.elements.elements(),
                     ScaleLines<W>{factor,
                                   part.first,
                                   part.rows,
                                   part.columns,
                                   part.by_row.data<double>(),
                                   part.by_column.data<double>(),
                                   part.elements.data<W>()});
  });
}

void apply_update(Backend backend, const ApplyUpdate& update) {
  check(update);
  with_weight(
      update.weight, update.compute, [&]<typename W, typename C>(TypeTag<W>, Store<C> store) {
        for_each_element(backend,
                         update.weight.elements(),
                         Directed<W, C>{static_cast<W>(update.decay_factor),
                                        static_cast<W>(update.rate),
                                        update.direction.data<W>(),
                                        update.weight.data<W>(),
                                        store});
      });
}

}  // namespace longspan
