// Backend-independent block weights of one matrix, row or key. The backend provides
// `for_each_element` and a Team: the threads that work on one matrix.
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

// Candidate columns of a row of scores.
template <typename A>
struct TopRow {
  std::int64_t rows, columns, top, before, heads;
  bool causal;
  A temperature;
  const A* scores;
  const std::int64_t* real;  // or null
  std::int32_t* choice;

  TopRow(const TopWeights& call)
      : rows(call.scores.shape()[1]),
        columns(call.scores.shape()[2]),
        top(call.choice.shape()[2]),
        before(call.before),
        heads(call.real.defined() ? call.scores.shape()[0] / call.real.elements() : 1),
        causal(call.causal),
        temperature(static_cast<A>(call.temperature)),
        scores(call.scores.data<A>()),
        real(call.real.defined() ? call.real.data<std::int64_t>() : nullptr),
        choice(call.choice.data<std::int32_t>()) {}

  // Number of candidate columns of row i, counted over all matrices.
  LONGSPAN_HOST_DEVICE std::int64_t open(std::int64_t i) const {
    if (causal) return before + i % rows;
    return real == nullptr ? columns : real[i / rows / heads];
  }
  LONGSPAN_HOST_DEVICE bool taken(std::int64_t i, std::int64_t pick, std::int64_t column) const {
    for (std::int64_t k = 0; k < pick; ++k)
      if (choice[i * top + k] == column) return true;
    return false;
  }
  // Softmax probability of the column among those that earlier picks left.
  LONGSPAN_HOST_DEVICE A share(std::int64_t i,
                               std::int64_t pick,
                               std::int64_t column,
                               A sum) const {
    const A* const score = scores + i * columns;
    return std::exp((score[column] - score[choice[i * top + pick]]) / temperature) / sum;
  }
  LONGSPAN_HOST_DEVICE A sum(std::int64_t i, std::int64_t pick) const {
    A total = 0;
    for (std::int64_t column = 0; column < open(i); ++column)
      if (!taken(i, pick, column)) total += share(i, pick, column, A{1});
    return total;
  }
};

template <typename A>
struct ChooseRow {
  TopRow<A> row;
  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const A* const score = row.scores + i * row.columns;
    for (std::int64_t pick = 0; pick < row.top; ++pick) {
      std::int64_t best = -1;
      for (std::int64_t column = 0; column < row.open(i); ++column)
        if (!row.taken(i, pick, column) && (best < 0 || score[column] > score[best])) best = column;
      // If no candidate is left, takes a column that is not one.
      for (std::int64_t column = 0; best < 0; ++column)
        if (!row.taken(i, pick, column)) best = column;
      row.choice[i * row.top + pick] = static_cast<std::int32_t>(best);
    }
  }
};

template <typename A>
struct WeighRow {
  TopRow<A> row;
  A* weights;
  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    for (std::int64_t pick = 0; pick < row.top; ++pick) {
      A* const to = weights + (i * row.top + pick) * row.columns;
      for (std::int64_t column = 0; column < row.columns; ++column) to[column] = 0;
      const std::int64_t chosen = row.choice[i * row.top + pick];
      if (chosen < row.open(i)) to[chosen] = A{1} / row.sum(i, pick);
    }
  }
};

template <typename A>
struct WeighRowBackward {
  TopRow<A> row;
  const A* dweights;
  A* dscores;
  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    A* const to = dscores + i * row.columns;
    for (std::int64_t column = 0; column < row.columns; ++column) to[column] = 0;
    for (std::int64_t pick = 0; pick < row.top; ++pick) {
      const std::int64_t chosen = row.choice[i * row.top + pick];
      if (chosen >= row.open(i)) continue;
      const A sum = row.sum(i, pick);
      const A by = dweights[(i * row.top + pick) * row.columns + chosen] / sum / row.temperature;
      for (std::int64_t column = 0; column < row.open(i); ++column)
        if (!row.taken(i, pick, column)) to[column] -= by * row.share(i, pick, column, sum);
      to[chosen] += by;
    }
  }
};

template <typename T>
struct KeyOfMixed {
  std::int64_t heads, blocks, mixed, size;
  bool by_largest;
  const T* weights;
  const std::uint8_t* padding;
  const std::int64_t* length;
  std::int32_t* position;

  KeyOfMixed(const MixedPadding& call)
      : heads(call.position.shape()[1]),
        blocks(call.weights.shape()[2]),
        mixed(call.weights.shape()[1] / blocks),
        size(call.position.shape()[2] / (mixed + 1)),
        by_largest(call.by_largest),
        weights(call.weights.data<T>()),
        padding(call.padding.defined() ? call.padding.data<std::uint8_t>() : nullptr),
        length(call.length.defined() ? call.length.data<std::int64_t>() : nullptr),
        position(call.position.data<std::int32_t>()) {}

  LONGSPAN_HOST_DEVICE bool seen(std::int64_t b, std::int64_t at) const {
    if (padding != nullptr && padding[b * blocks * size + at] != 0) return false;
    return length == nullptr || at < length[b];
  }
  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t key = i % ((mixed + 1) * size), h = i / ((mixed + 1) * size) % heads;
    const std::int64_t u = i / ((mixed + 1) * size) / heads % blocks;
    const std::int64_t b = i / ((mixed + 1) * size) / heads / blocks;
    const std::int64_t within = key % size;
    bool found = seen(b, u * size + within);
    if (key < mixed * size) {
      const T* const row = weights + (((b * heads + h) * blocks + u) * mixed + key / size) * blocks;
      Accumulator<T> real = 0, all = 0;
      std::int64_t largest = 0;
      for (std::int64_t v = 0; v < blocks; ++v) {
        if (seen(b, v * size + within)) real += wide(row[v]);
        all += wide(row[v]);
        if (wide(row[v]) > wide(row[largest])) largest = v;
      }
      found = by_largest ? seen(b, largest * size + within) : real > all * Accumulator<T>(0.5);
    }
    position[i] = found ? 0 : -1;
  }
};

struct CountBlocks {
  std::int64_t size;
  const std::int64_t* length;
  std::int64_t* blocks;

  LONGSPAN_HOST_DEVICE void operator()(std::int64_t i) const {
    blocks[i] = (length[i] + size - 1) / size;
  }
};

template <typename Backend>
void count_blocks_on(Backend backend,
                     const Tensor& length,
                     std::int64_t size,
                     const Tensor& blocks) {
  require(length.shape() == blocks.shape() && size > 0,
          "count_blocks: lengths {} do not match blocks {}",
          length.shape(),
          blocks.shape());
  for_each_element(backend,
                   length.elements(),
                   CountBlocks{size, length.data<std::int64_t>(), blocks.data<std::int64_t>()});
}

template <typename Backend>
void choose_blocks_on(Backend backend, const TopWeights& top) {
  check(top);
  with_accumulator_type(top.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const TopRow<A> row(top);
    for_each_element(backend, top.scores.shape()[0] * row.rows, ChooseRow<A>{row});
  });
}

template <typename Backend>
void top_weights_on(Backend backend, const TopWeights& top) {
  check(top);
  with_accumulator_type(top.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const TopRow<A> row(top);
    for_each_element(
        backend, top.scores.shape()[0] * row.rows, WeighRow<A>{row, top.weights.data<A>()});
  });
}

template <typename Backend>
void top_weights_backward_on(Backend backend, const TopWeightsGradient& gradient) {
  check(gradient);
  with_accumulator_type(gradient.forward.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const TopRow<A> row(gradient.forward);
    for_each_element(
        backend,
        gradient.forward.scores.shape()[0] * row.rows,
        WeighRowBackward<A>{row, gradient.dweights.data<A>(), gradient.dscores.data<A>()});
  });
}

template <typename Backend>
void mixed_padding_on(Backend backend, const MixedPadding& mixed) {
  check(mixed);
  with_floating_type(mixed.weights.dtype(), [&]<typename T>(TypeTag<T>) {
    for_each_element(backend, mixed.position.elements(), KeyOfMixed<T>(mixed));
  });
}

}  // namespace longspan
