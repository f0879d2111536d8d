// Weights that mix the blocks of a sequence into other blocks (Sparse Sinkhorn attention, Tay et
// al. 2020).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// weights = exp(Z). Z starts as (log(max(scores, 0) + 1e-6) + G) / temperature. Its rows and then
// its columns are normalized by their log-sum-exp, `iterations` times, which makes exp(Z) nearly
// doubly stochastic. G is Gumbel noise -log(1e-6 - log(uniform + 1e-6)), or 0 if `uniform` is
// undefined. scores, uniform, weights: [count, blocks, blocks], f32 or f64. The log-sum-exps
// [count, 2 iterations, blocks] are saved for the backward pass.
struct SinkhornWeights {
  Tensor scores;
  Tensor uniform = {};
  double temperature = 0.75;
  std::int64_t iterations = 7;
  Tensor weights;
  Tensor normalizers;
};
void sinkhorn_weights(Cpu, const SinkhornWeights&);
void sinkhorn_weights(Cuda, const SinkhornWeights&);

// Overwrites dscores. totals: [count, 2, blocks], scratch.
struct SinkhornWeightsGradient {
  SinkhornWeights forward;
  Tensor dweights;
  Tensor dscores;
  Tensor totals;
};
void sinkhorn_weights_backward(Cpu, const SinkhornWeightsGradient&);
void sinkhorn_weights_backward(Cuda, const SinkhornWeightsGradient&);

// Selects the `top` largest scores of each row, in descending order; ties go to the first column.
// scores: [count, rows, columns]; choice: [count, rows, top] i32, overwritten by choose_blocks.
// With `causal`, row u may select only columns below before + u: the first `before` columns and the
// earlier blocks. At least `top` columns must be available. Otherwise a row may select from all
// columns, or from the first `real` columns ([batch] i64, count = batch * heads). The rest are
// padding and get weight 0 if selected.
//
// weights: [count, rows * top, columns], zero except at the selected columns. The i-th weight of a
// row is the softmax of scores / temperature over the columns that were not selected before it.
struct TopWeights {
  Tensor scores;
  Tensor choice;
  std::int64_t before = 0;
  bool causal = false;
  double temperature = 1;
  Tensor weights = {};
  Tensor real = {};
};
void choose_blocks(Cpu, const TopWeights&);
void choose_blocks(Cuda, const TopWeights&);
void top_weights(Cpu, const TopWeights&);
void top_weights(Cuda, const TopWeights&);
// Overwrites dscores: [count, rows, columns].
struct TopWeightsGradient {
  TopWeights forward;
  Tensor dweights;
  Tensor dscores;
};
void top_weights_backward(Cpu, const TopWeightsGradient&);
void top_weights_backward(Cuda, const TopWeightsGradient&);

// Marks padding among the keys of mixed blocks: 0 for a real key, -1 for padding. weights: [batch *
// heads, rows, blocks] of any floating dtype, rows / blocks mixed blocks for each block. padding:
// [batch, blocks * size] u8, or length: [batch] i64. A mixed key is padding if more than half of
// it, by weight, is padding. With `by_largest`, it is padding if it is padding in the block with
// the largest weight. position: [batch * blocks, heads, (rows / blocks + 1) size] i32, overwritten:
// the mixed blocks of a block, followed by its own keys.
struct MixedPadding {
  Tensor weights;
  Tensor padding = {};
  Tensor length = {};
  bool by_largest = false;
  Tensor position;
};
void mixed_padding(Cpu, const MixedPadding&);
void mixed_padding(Cuda, const MixedPadding&);

// blocks[b] = ceil(length[b] / size): the number of blocks of a row that contain a real token. i64,
// same shape.
void count_blocks(Cpu, const Tensor& length, std::int64_t size, const Tensor& blocks);
void count_blocks(Cuda, const Tensor& length, std::int64_t size, const Tensor& blocks);

// Throws Failure if the shapes or dtypes of the tensors do not match.
void check(const SinkhornWeights&);
void check(const SinkhornWeightsGradient&);
void check(const TopWeights&);
void check(const TopWeightsGradient&);
void check(const MixedPadding&);

}  // namespace longspan
