// With what weights blocks of a sequence are mixed into others (Sparse Sinkhorn attention, Tay et
// al. 2020).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// weights = exp(Z), where Z begins as (log(max(scores, 0) + 1e-6) + G) / temperature and has its
// rows and then its columns normalised by their log-sum-exp, `iterations` times: nearly doubly
// stochastic. G is Gumbel noise -log(1e-6 - log(uniform + 1e-6)), or 0 where `uniform` is
// undefined. scores, uniform, weights: [count, blocks, blocks], f32 or f64; normalisers: [count,
// 2 iterations, blocks], written, kept for the backward pass.
struct SinkhornWeights {
  Tensor scores;
  Tensor uniform = {};
  double temperature = 0.75;
  std::int64_t iterations = 7;
  Tensor weights;
  Tensor normalisers;
};
void sinkhorn_weights(Cpu, const SinkhornWeights&);
void sinkhorn_weights(Cuda, const SinkhornWeights&);

// dscores is written. totals: [count, 2, blocks], scratch.
struct SinkhornWeightsGradient {
  SinkhornWeights forward;
  Tensor dweights;
  Tensor dscores;
  Tensor totals;
};
void sinkhorn_weights_backward(Cpu, const SinkhornWeightsGradient&);
void sinkhorn_weights_backward(Cuda, const SinkhornWeightsGradient&);

// The `top` largest scores of each row, one after another, the first of equals. With `causal` row u
// has the columns below before + u only: `before` of them and the earlier blocks. scores: [count,
// rows, columns]; choice: [count, rows, top] i32, written by choose_blocks. There must be as many.
// Without it rows have all columns, or, where `real` [batch] i64 is given (count = batch * heads),
// that many of the first: the others are padding, whose weight is 0 where they have to be chosen.
//
// weights: [count, rows * top, columns], zeros but for the chosen: the i-th of a row is the softmax
// of scores / temperature over the columns that were not chosen before it.
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
// dscores: [count, rows, columns], written.
struct TopWeightsGradient {
  TopWeights forward;
  Tensor dweights;
  Tensor dscores;
};
void top_weights_backward(Cpu, const TopWeightsGradient&);
void top_weights_backward(Cuda, const TopWeightsGradient&);

// Which keys of mixed blocks are padding: 0 for a key that is none, -1 for one that is. weights:
// [batch * heads, rows, blocks] of any floating dtype, rows / blocks mixed blocks for each;
// padding: [batch, blocks * size] u8, or length: [batch] i64. A mixed key is none where more than
// half of it, by weight, is none; with `by_largest` where the block with the largest weight has
// none. position: [batch * blocks, heads, (rows / blocks + 1) size] i32, written: of the mixed
// blocks of a block, and then of its own keys.
struct MixedPadding {
  Tensor weights;
  Tensor padding = {};
  Tensor length = {};
  bool by_largest = false;
  Tensor position;
};
void mixed_padding(Cpu, const MixedPadding&);
void mixed_padding(Cuda, const MixedPadding&);

// blocks[b] = length[b] / size, rounded up: how many blocks of a row have a token that is no
// padding. i64, of one shape.
void count_blocks(Cpu, const Tensor& length, std::int64_t size, const Tensor& blocks);
void count_blocks(Cuda, const Tensor& length, std::int64_t size, const Tensor& blocks);

// Throw Failure where the tensors do not fit each other.
void check(const SinkhornWeights&);
void check(const SinkhornWeightsGradient&);
void check(const TopWeights&);
void check(const TopWeightsGradient&);
void check(const MixedPadding&);

}  // namespace longspan
