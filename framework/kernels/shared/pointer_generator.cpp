// Pointer-generator, coverage and guided-attention losses of cross-attention.
#include "framework/kernels/pointer_generator.h"

#include <cmath>
#include <type_traits>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"
#include "framework/kernels/vector_math.h"

namespace longspan {
namespace {

// Layout of the rows of batch x time.
struct SourceRows {
  std::int64_t time, positions;
  const std::int64_t* source;
  const std::int64_t* targets;

  LONGSPAN_HOST_DEVICE bool copies(std::int64_t row, std::int64_t s) const {
    return source[row / time * positions + s] == targets[row];
  }
};

template <typename A>
struct AddCopied {
  SourceRows rows;
  const A* attention;
  A* copied;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    A sum = 0;
    for (std::int64_t s = 0; s < rows.positions; ++s)
      if (rows.copies(row, s)) sum += attention[row * rows.positions + s];
    copied[row] = sum;
  }
};

template <typename A>
struct CopiedGradient {
  SourceRows rows;
  const A* dcopied;
  A* dattention;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    for (std::int64_t s = 0; s < rows.positions; ++s)
      dattention[row * rows.positions + s] = rows.copies(row, s) ? dcopied[row] : A{0};
  }
};

template <typename A>
struct MixLosses {
  const A *generated, *gate, *copied;
  const std::int64_t* targets;
  A* losses;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    if (targets[i] < 0) {
      losses[i] = 0;
      return;
    }
    const A left = softplus(-gate[i]) + generated[i];
    const A right = softplus(gate[i]) - std::log(copied[i]);
    const A least = left < right ? left : right;
    const A most = left < right ? right : left;
    // Both may be infinite.
    losses[i] = std::isinf(least) ? least : least - std::log1p(fast_exp(least - most));
  }
};

template <typename A>
struct MixGradient {
  MixLosses<A> forward;
  const A* dlosses;
  A *dgenerated, *dgate, *dcopied;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const A loss = forward.losses[i];
    dgenerated[i] = dgate[i] = dcopied[i] = 0;
    if (forward.targets[i] < 0 || std::isinf(loss)) return;
    const A gate = forward.gate[i];
    // The vocabulary's share of the target probability.
    const A share = fast_exp(loss - softplus(-gate) - forward.generated[i]);
    dgenerated[i] = dlosses[i] * share;
    dgate[i] = dlosses[i] * (sigmoid(gate) - share);
    const A power = loss - softplus(gate);
    dcopied[i] = -dlosses[i] * fast_exp(power < A{80} ? power : A{80});
  }
};

// One source position, in time order.
template <typename A>
struct Cover {
  std::int64_t time, positions;
  const A* attention;
  A* coverage;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t column) const {
    std::int64_t i = column / positions * time * positions + column % positions;
    A sum = 0;
    for (std::int64_t t = 0; t < time; ++t, i += positions) {
      coverage[i] = sum;
      sum += attention[i];
    }
  }
};

template <typename A>
struct AddCovered {
  std::int64_t positions;
  const A *attention, *coverage;
  const std::int64_t* targets;
  A* losses;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    A sum = 0;
    for (std::int64_t i = row * positions; i < (row + 1) * positions; ++i)
      sum += coverage[i] < attention[i] ? coverage[i] : attention[i];
    losses[row] = targets[row] < 0 ? A{0} : sum;
  }
};

template <typename A>
struct CoverGradient {
  std::int64_t time, positions;
  const A *attention, *coverage;
  const std::int64_t* targets;
  const A* dlosses;
  A* dattention;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t column) const {
    const std::int64_t first = column / positions * time;
    A later = 0;  // gradient that reaches this step through later coverage
    for (std::int64_t t = time - 1; t >= 0; --t) {
      const std::int64_t i = (first + t) * positions + column % positions;
      const A here = targets[first + t] < 0 ? A{0} : dlosses[first + t];
      const bool is_covered = attention[i] <= coverage[i];
      dattention[i] = later + (is_covered ? here : A{0});
      later += is_covered ? A{0} : here;
    }
  }
};

template <GuidedAttentionLoss kind, typename A>
struct Guide {
  std::int64_t positions;
  const A *attention, *guide;
  A epsilon;

  LONGSPAN_HOST_DEVICE A value(std::int64_t i) const {
    if constexpr (kind == GuidedAttentionLoss::product) return guide[i] * attention[i];
    if constexpr (kind == GuidedAttentionLoss::square)
      return (attention[i] - guide[i]) * (attention[i] - guide[i]) / 2;
    return guide[i] == 0 ? A{0} : -guide[i] * std::log(attention[i] + epsilon);
  }
  LONGSPAN_HOST_DEVICE A slope(std::int64_t i) const {
    if constexpr (kind == GuidedAttentionLoss::product) return guide[i];
    if constexpr (kind == GuidedAttentionLoss::square) return attention[i] - guide[i];
    return guide[i] == 0 ? A{0} : -guide[i] / (attention[i] + epsilon);
  }
};

template <GuidedAttentionLoss kind, typename A>
struct AddGuided {
  Guide<kind, A> guide;
  A* losses;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    A sum = 0;
    for (std::int64_t i = row * guide.positions; i < (row + 1) * guide.positions; ++i)
      sum += guide.value(i);
    losses[row] = sum;
  }
};

template <GuidedAttentionLoss kind, typename A>
struct GuideGradient {
  Guide<kind, A> guide;
  const A* dlosses;
  A* dattention;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t row) const {
    for (std::int64_t i = row * guide.positions; i < (row + 1) * guide.positions; ++i)
      dattention[i] = dlosses[row] * guide.slope(i);
  }
};

template <typename A>
MixLosses<A> mix_of(const PointerGeneratorLosses& call) {
  return {call.generated.data<A>(),
          call.gate.data<A>(),
          call.copied.data<A>(),
          call.targets.data<std::int64_t>(),
          call.losses.data<A>()};
}

// Calls f with the guide functor of the call's loss.
template <typename A, typename F>
void with_guide(const GuidedAttentionLosses& call, const F& f) {
  const auto guide_of =
      [&]<GuidedAttentionLoss kind>(std::integral_constant<GuidedAttentionLoss, kind>) {
        return Guide<kind, A>{call.attention.shape()[2],
                              call.attention.data<A>(),
                              call.guide.data<A>(),
                              static_cast<A>(call.epsilon)};
      };
  using enum GuidedAttentionLoss;
  if (call.kind == product)
    f(guide_of(std::integral_constant<GuidedAttentionLoss, product>()));
  else if (call.kind == square)
    f(guide_of(std::integral_constant<GuidedAttentionLoss, square>()));
  else
    f(guide_of(std::integral_constant<GuidedAttentionLoss, cross_entropy>()));
}

}  // namespace

void copy_probability(Backend backend, const CopyProbability& call) {
  check(call);
  const Shape& shape = call.attention.shape();
  with_accumulator_type(call.attention.dtype(), [&]<typename A>(TypeTag<A>) {
    const SourceRows rows = {
        shape[1], shape[2], call.source.data<std::int64_t>(), call.targets.data<std::int64_t>()};
    parallel_rows(backend,
                  shape.rows(),
                  shape[2],
                  AddCopied<A>{rows, call.attention.data<A>(), call.copied.data<A>()});
  });
}

void copied_mass_backward(Backend backend, const CopiedMassGradient& call) {
  check(call);
  const Shape& shape = call.dattention.shape();
  with_accumulator_type(call.dattention.dtype(), [&]<typename A>(TypeTag<A>) {
    const SourceRows rows = {
        shape[1], shape[2], call.source.data<std::int64_t>(), call.targets.data<std::int64_t>()};
    parallel_rows(backend,
                  shape.rows(),
                  shape[2],
                  CopiedGradient<A>{rows, call.dcopied.data<A>(), call.dattention.data<A>()});
  });
}

void pointer_generator_losses(Backend backend, const PointerGeneratorLosses& call) {
  check(call);
  with_accumulator_type(call.losses.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(backend, call.losses.elements(), 16, mix_of<A>(call));
  });
}

void copy_losses_backward(Backend backend, const CopyLossesGradient& call) {
  check(call);
  with_accumulator_type(call.dlosses.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(backend,
                  call.dlosses.elements(),
                  16,
                  MixGradient<A>{mix_of<A>(call.forward),
                                 call.dlosses.data<A>(),
                                 call.dgenerated.data<A>(),
                                 call.dgate.data<A>(),
                                 call.dcopied.data<A>()});
  });
}

void coverage_losses(Backend backend, const CoverageLosses& call) {
  check(call);
  const Shape& shape = call.attention.shape();
  with_accumulator_type(call.attention.dtype(), [&]<typename A>(TypeTag<A>) {
    const A* const attention = call.attention.data<A>();
    A* const coverage = call.coverage.data<A>();
    parallel_rows(
        backend, shape[0] * shape[2], shape[1], Cover<A>{shape[1], shape[2], attention, coverage});
    parallel_rows(backend,
                  shape.rows(),
                  shape[2],
                  AddCovered<A>{shape[2],
                                attention,
                                coverage,
                                call.targets.data<std::int64_t>(),
                                call.losses.data<A>()});
  });
}

void coverage_losses_backward(Backend backend, const CoverageLossesGradient& call) {
  check(call);
  const Shape& shape = call.dattention.shape();
  with_accumulator_type(call.dattention.dtype(), [&]<typename A>(TypeTag<A>) {
    parallel_rows(backend,
                  shape[0] * shape[2],
                  shape[1],
                  CoverGradient<A>{shape[1],
                                   shape[2],
                                   call.forward.attention.data<A>(),
                                   call.forward.coverage.data<A>(),
                                   call.forward.targets.data<std::int64_t>(),
                                   call.dlosses.data<A>(),
                                   call.dattention.data<A>()});
  });
}

void guided_attention_losses(Backend backend, const GuidedAttentionLosses& call) {
  check(call);
  const Shape& shape = call.attention.shape();
  with_accumulator_type(call.attention.dtype(), [&]<typename A>(TypeTag<A>) {
    with_guide<A>(call, [&]<GuidedAttentionLoss kind>(const Guide<kind, A>& guide) {
      parallel_rows(
          backend, shape.rows(), 4 * shape[2], AddGuided<kind, A>{guide, call.losses.data<A>()});
    });
  });
}

void guide_losses_backward(Backend backend, const GuideLossesGradient& call) {
  check(call);
  const Shape& shape = call.dattention.shape();
  with_accumulator_type(call.dattention.dtype(), [&]<typename A>(TypeTag<A>) {
    with_guide<A>(call.forward, [&]<GuidedAttentionLoss kind>(const Guide<kind, A>& guide) {
      parallel_rows(
          backend,
          shape.rows(),
          4 * shape[2],
          GuideGradient<kind, A>{guide, call.dlosses.data<A>(), call.dattention.data<A>()});
    });
  });
}

}  // namespace longspan
