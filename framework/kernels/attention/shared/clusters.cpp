// Nearest clusters, updates of centroids, division of rows.
#include "framework/kernels/attention/clusters.h"

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

template <typename A>
struct FindNearest {
  std::int64_t heads, clusters, time;
  const std::int64_t* length;
  const A* scores;
  std::int32_t* cluster;

  explicit FindNearest(const NearestCluster& nearest)
      : heads(nearest.scores.shape()[1]),
        clusters(nearest.scores.shape()[2]),
        time(nearest.scores.shape()[3]),
        length(nearest.length.defined() ? nearest.length.data<std::int64_t>() : nullptr),
        scores(nearest.scores.data<A>()),
        cluster(nearest.cluster.data<std::int32_t>()) {}

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t head = i / time, t = i % time;
    const A* score = scores + head * clusters * time + t;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < clusters; ++c)
      if (score[c * time] > score[best * time]) best = c;
    const bool padding = length != nullptr && t >= length[head / heads];
    cluster[i] = static_cast<std::int32_t>(padding ? clusters : best);
  }
};

template <typename A>
struct MoveCentroid {
  std::int64_t dim;
  A decay;
  bool unit;
  A* centroids;
  const A* sums;
  const A* counts;

  LONGSPAN_HOST_DEVICE static A length(const A* row, std::int64_t dim) {
    A squares = 0;
    for (std::int64_t d = 0; d < dim; ++d) squares += row[d] * row[d];
    const A found = std::sqrt(squares);
    return found > A(1e-12) ? found : A(1e-12);
  }
  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    if (counts[i] == 0) return;
    A* centroid = centroids + i * dim;
    const A* sum = sums + i * dim;
    const A share = (A{1} - decay) / length(sum, dim);
    for (std::int64_t d = 0; d < dim; ++d) centroid[d] = decay * centroid[d] + share * sum[d];
    if (!unit) return;
    const A whole = length(centroid, dim);
    for (std::int64_t d = 0; d < dim; ++d) centroid[d] /= whole;
  }
};

template <typename X, typename C, typename Y>
struct DivideElement {
  using A = Wider<X, C>;
  std::int64_t dim;
  A floor;
  const X* x;
  const C* count;

  LONGSPAN_HOST_DEVICE auto operator()(std::int64_t i) const {
    const C divisor = count[i / dim];
    const A value =
        divisor == 0 ? A{0} : static_cast<A>(wide(x[i])) / (static_cast<A>(divisor) + floor);
    return static_cast<Accumulator<Y>>(value);
  }
};

}  // namespace

void nearest_cluster(Backend backend, const NearestCluster& nearest) {
  check(nearest);
  with_accumulator_type(nearest.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    for_each_element(backend, nearest.cluster.elements(), FindNearest<A>(nearest));
  });
}

void update_centroids(Backend backend, const UpdateCentroids& move) {
  check(move);
  with_accumulator_type(move.centroids.dtype(), [&]<typename A>(TypeTag<A>) {
    for_each_element(backend,
                     move.counts.elements(),
                     MoveCentroid<A>{move.centroids.shape()[2],
                                     static_cast<A>(move.decay),
                                     move.unit,
                                     move.centroids.data<A>(),
                                     move.sums.data<A>(),
                                     move.counts.data<A>()});
  });
}

void divide_rows(Backend backend, const DivideRows& divide) {
  check(divide);
  with_both_types(divide.x, divide.y, [&]<typename X, typename Y>(TypeTag<X>, TypeTag<Y>) {
    with_accumulator_type(divide.count.dtype(), [&]<typename C>(TypeTag<C>) {
      using Divide = DivideElement<X, C, Y>;
      write_elements(backend,
                     divide.y.elements(),
                     divide.y.data<Y>(),
                     Divide{divide.x.shape().width(),
                            static_cast<typename Divide::A>(divide.floor),
                            divide.x.data<X>(),
                            divide.count.data<C>()});
    });
  });
}

}  // namespace longspan
