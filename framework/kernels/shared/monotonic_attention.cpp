// Monotonic attention.
#include "framework/kernels/monotonic_attention.h"

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

// One batch row; processes target positions sequentially.
template <typename A>
struct WalkOn {
  std::int64_t time, positions;
  const A* attention;
  const std::int64_t *source, *target;
  A* walk;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t b) const {
    const std::int64_t seen = source[b] < positions ? source[b] : positions;
    for (std::int64_t t = 0; t < time; ++t) {
      A* const now = walk + (b * time + t) * positions;
      for (std::int64_t s = 0; s < positions; ++s) now[s] = 0;
      if (t < target[b] && seen > 0) step(b, t, seen, now);
    }
  }
  LONGSPAN_HOST_DEVICE void step(std::int64_t b, std::int64_t t, std::int64_t seen, A* now) const {
    const A* const from = attention + (b * time + t) * positions;
    // Attention from each position on, summed from the end, where it is smallest, for accuracy.
    A rest = 0;
    for (std::int64_t s = seen - 1; s >= 0; --s) now[s] = rest += from[s];
    A here = 0;  // probability mass that reaches a position
    for (std::int64_t s = 0; s < seen; ++s) {
      here += t == 0 ? (s == 0 ? A{1} : A{0}) : now[s - positions];
      const bool is_last = s == seen - 1 || !(now[s] > A{0});
      const A stops = is_last ? here : here * (from[s] / now[s]);
      now[s] = stops;
      here -= stops;
    }
  }
};

}  // namespace

void monotonic_attention(Backend backend, const MonotonicAttention& call) {
  check(call);
  const Shape& shape = call.attention.shape();
  const auto run = [&]<typename A>(TypeTag<A>) {
    parallel_rows(backend,
                  shape[0],
                  shape[1] * shape[2],
                  WalkOn<A>{shape[1],
                            shape[2],
                            call.attention.data<A>(),
                            call.source.data<std::int64_t>(),
                            call.target.data<std::int64_t>(),
                            call.walk.data<A>()});
  };
  if (call.attention.dtype() == DType::f64)
    run(TypeTag<double>());
  else
    run(TypeTag<float>());
}

}  // namespace longspan
