#include "framework/kernels/attention/clusters.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/kernels/cpu/loops.h"

namespace longspan {
namespace {

// Selects the best tokens of one centroid. `order` is scratch.
template <typename A>
void choose(const A* score,
            std::int64_t time,
            std::int64_t width,
            std::vector<std::int32_t>& order,
            std::int32_t* position) {
  order.resize(static_cast<std::size_t>(time));
  std::iota(order.begin(), order.end(), 0);
  // NaN scores come last.
  const auto better = [=](std::int32_t a, std::int32_t b) {
    const A left = score[a], right = score[b];
    if (left != left || right != right) return right != right && (left == left || a < b);
    return left > right || (left == right && a < b);
  };
  const std::int64_t count = std::min(width, time);
  std::nth_element(order.begin(), order.begin() + count, order.end(), better);
  std::sort(order.begin(), order.begin() + count);
  std::copy_n(order.begin(), count, position);
  std::fill(position + count, position + width, -1);
}

}  // namespace

void cluster_members(Cpu, const ClusterMembers& members) {
  check(members);
  const Shape& shape = members.scores.shape();
  const std::int64_t heads = shape[1], clusters = shape[2], time = shape[3];
  const std::int64_t width = members.position.shape()[3];
  std::int32_t* const position = members.position.data<std::int32_t>();
  with_accumulator_type(members.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const A* const scores = members.scores.data<A>();
    for_rows(shape[0] * heads * clusters, time, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int32_t> order;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t c = i % clusters, h = i / clusters % heads, b = i / clusters / heads;
        const std::int64_t real =
            members.length.defined()
                ? std::clamp<std::int64_t>(members.length.data<std::int64_t>()[b], 0, time)
                : time;
        choose(scores + i * time,
               real,
               width,
               order,
               position + ((b * clusters + c) * heads + h) * width);
      }
    });
  });
}

void add_cluster_sums(Cpu, const ClusterSums& sums) {
  check(sums);
  const Shape& shape = sums.x.shape();
  const std::int64_t batch = shape[0], time = shape[1], heads = shape[2], dim = shape[3];
  const std::int64_t clusters = sums.sums.shape()[1];
  const std::int32_t* const cluster = sums.cluster.data<std::int32_t>();
  with_floating_type(sums.x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const T* const x = sums.x.data<T>();
    A* const totals = sums.sums.data<A>();
    A* const counts = sums.counts.data<A>();
    for_pieces(heads, batch * time * dim, [=](std::int64_t h) {
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t t = 0; t < time; ++t) {
          const std::int64_t c = cluster[(b * heads + h) * time + t];
          if (c >= clusters) continue;
          const T* const row = x + ((b * time + t) * heads + h) * dim;
          A* const total = totals + (h * clusters + c) * dim;
          counts[h * clusters + c] += 1;
          for (std::int64_t d = 0; d < dim; ++d) total[d] += wide(row[d]);
        }
    });
  });
}

}  // namespace longspan
