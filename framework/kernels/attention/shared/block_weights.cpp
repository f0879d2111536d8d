// Selection of blocks: the largest weights, blocks of a length, padding of mixed keys.
#include "framework/kernels/attention/block_weights.h"

#include <cmath>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/backend.h"

namespace longspan {
namespace {

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

}  // namespace

void count_blocks(Backend backend, const Tensor& length, std::int64_t size, const Tensor& blocks) {
  require(length.shape() == blocks.shape() && size > 0,
          "count_blocks: lengths {} do not match blocks {}",
          length.shape(),
          blocks.shape());
  for_each_element(backend,
                   length.elements(),
                   CountBlocks{size, length.data<std::int64_t>(), blocks.data<std::int64_t>()});
}

void choose_blocks(Backend backend, const TopWeights& top) {
  check(top);
  with_accumulator_type(top.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const TopRow<A> row(top);
    for_each_element(backend, top.scores.shape()[0] * row.rows, ChooseRow<A>{row});
  });
}

void top_weights(Backend backend, const TopWeights& top) {
  check(top);
  with_accumulator_type(top.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const TopRow<A> row(top);
    for_each_element(
        backend, top.scores.shape()[0] * row.rows, WeighRow<A>{row, top.weights.data<A>()});
  });
}

void top_weights_backward(Backend backend, const TopWeightsGradient& gradient) {
  check(gradient);
  with_accumulator_type(gradient.forward.scores.dtype(), [&]<typename A>(TypeTag<A>) {
    const TopRow<A> row(gradient.forward);
    for_each_element(
        backend,
        gradient.forward.scores.shape()[0] * row.rows,
        WeighRowBackward<A>{row, gradient.dweights.data<A>(), gradient.dscores.data<A>()});
  });
}

void mixed_padding(Backend backend, const MixedPadding& mixed) {
  check(mixed);
  with_floating_type(mixed.weights.dtype(), [&]<typename T>(TypeTag<T>) {
    for_each_element(backend, mixed.position.elements(), KeyOfMixed<T>(mixed));
  });
}

}  // namespace longspan
