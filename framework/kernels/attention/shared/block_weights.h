// Sinkhorn normalization of one matrix by a Team: the threads that work on it.
#pragma once

#include <cmath>

#include "framework/kernels/attention/block_weights.h"
#include "framework/kernels/element.h"

namespace longspan {

inline constexpr double score_floor = 1e-6;

template <typename A>
struct SinkhornMatrix {
  std::int64_t blocks, iterations;
  A temperature;
  const A* scores;
  const A* uniform;  // or null
  A* weights;
  A* normalizers;

  SinkhornMatrix(const SinkhornWeights& sinkhorn)
      : blocks(sinkhorn.scores.shape()[1]),
        iterations(sinkhorn.iterations),
        temperature(static_cast<A>(sinkhorn.temperature)),
        scores(sinkhorn.scores.data<A>()),
        uniform(sinkhorn.uniform.defined() ? sinkhorn.uniform.data<A>() : nullptr),
        weights(sinkhorn.weights.data<A>()),
        normalizers(sinkhorn.normalizers.data<A>()) {}

  LONGSPAN_HOST_DEVICE A* normalizer(std::int64_t n, std::int64_t step) const {
    return normalizers + (n * 2 * iterations + step) * blocks;
  }
  LONGSPAN_HOST_DEVICE A start(std::int64_t i) const {
    const A floor = static_cast<A>(score_floor);
    const A score = scores[i] > A{0} ? scores[i] : A{0};
    const A noise = uniform == nullptr ? A{0} : -std::log(floor - std::log(uniform[i] + floor));
    return (std::log(score + floor) + noise) / temperature;
  }
};

// Subtracts from each line of z its log-sum-exp. A line is a row or a column: element k of line i
// is z[i * line + k * next].
template <typename Team, typename A>
LONGSPAN_HOST_DEVICE void normalize_lines(
    const Team& team, std::int64_t blocks, std::int64_t line, std::int64_t next, A* z, A* lse) {
  for (std::int64_t i = team.first(); i < blocks; i += team.size()) {
    A* const at = z + i * line;
    A largest = at[0];
    for (std::int64_t k = 1; k < blocks; ++k)
      if (at[k * next] > largest) largest = at[k * next];
    A sum = 0;
    for (std::int64_t k = 0; k < blocks; ++k) sum += std::exp(at[k * next] - largest);
    lse[i] = largest + std::log(sum);
    for (std::int64_t k = 0; k < blocks; ++k) at[k * next] -= lse[i];
  }
  team.wait();
}

template <typename Team, typename A>
LONGSPAN_HOST_DEVICE void weigh_matrix(const Team& team,
                                       const SinkhornMatrix<A>& m,
                                       std::int64_t n) {
  const std::int64_t elements = m.blocks * m.blocks, begin = n * elements;
  A* const z = m.weights + begin;
  for (std::int64_t i = team.first(); i < elements; i += team.size()) z[i] = m.start(begin + i);
  team.wait();
  for (std::int64_t step = 0; step < 2 * m.iterations; ++step) {
    const bool rows = step % 2 == 0;
    normalize_lines(
        team, m.blocks, rows ? m.blocks : 1, rows ? 1 : m.blocks, z, m.normalizer(n, step));
  }
  for (std::int64_t i = team.first(); i < elements; i += team.size()) z[i] = std::exp(z[i]);
}

// Gradient of one normalization. Its result is recomputed from the initial values and the running
// totals subtracted from rows and columns.
template <typename Team, typename A>
LONGSPAN_HOST_DEVICE void unnormalize_lines(const Team& team,
                                            const SinkhornMatrix<A>& m,
                                            std::int64_t begin,
                                            bool rows,
                                            const A* row_total,
                                            const A* column_total,
                                            A* dz) {
  for (std::int64_t i = team.first(); i < m.blocks; i += team.size()) {
    A sum = 0;
    for (std::int64_t k = 0; k < m.blocks; ++k)
      sum += dz[rows ? i * m.blocks + k : k * m.blocks + i];
    for (std::int64_t k = 0; k < m.blocks; ++k) {
      const std::int64_t row = rows ? i : k, column = rows ? k : i;
      const std::int64_t at = row * m.blocks + column;
      dz[at] -= std::exp(m.start(begin + at) - row_total[row] - column_total[column]) * sum;
    }
  }
  team.wait();
}

template <typename Team, typename A>
LONGSPAN_HOST_DEVICE void weigh_matrix_backward(const Team& team,
                                                const SinkhornMatrix<A>& m,
                                                const A* dweights,
                                                A* dscores,
                                                A* totals,
                                                std::int64_t n) {
  const std::int64_t elements = m.blocks * m.blocks, begin = n * elements;
  A* const dz = dscores + begin;
  A* const row_total = totals + 2 * n * m.blocks;
  A* const column_total = row_total + m.blocks;
  for (std::int64_t i = team.first(); i < m.blocks; i += team.size()) {
    row_total[i] = column_total[i] = 0;
    for (std::int64_t step = 0; step < 2 * m.iterations; ++step)
      (step % 2 == 0 ? row_total : column_total)[i] += m.normalizer(n, step)[i];
  }
  for (std::int64_t i = team.first(); i < elements; i += team.size())
    dz[i] = dweights[begin + i] * m.weights[begin + i];
  team.wait();
  for (std::int64_t step = 2 * m.iterations - 1; step >= 0; --step) {
    const bool rows = step % 2 == 0;
    unnormalize_lines(team, m, begin, rows, row_total, column_total, dz);
    for (std::int64_t i = team.first(); i < m.blocks; i += team.size())
      (rows ? row_total : column_total)[i] -= m.normalizer(n, step)[i];
    team.wait();
  }
  for (std::int64_t i = team.first(); i < elements; i += team.size()) {
    const A score = m.scores[begin + i];
    dz[i] = score > A{0} ? dz[i] / m.temperature / (score + static_cast<A>(score_floor)) : A{0};
  }
}

}  // namespace longspan
