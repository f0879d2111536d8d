// Attention of blocks over mixtures of blocks (Sparse Sinkhorn attention, Tay et al. 2020) as
// recorded ops.
#pragma once

#include <cstdint>
#include <functional>

#include "framework/autograd/ops.h"

namespace longspan {

// As kernels/attention/block_weights.h. scores: [count, blocks, blocks] f32 or f64; result: of the
// same shape.
Variable sinkhorn_weights(const Variable& scores,
                          const Tensor& uniform,
                          double temperature,
                          std::int64_t iterations);
// scores: [count, rows, columns]; choice: [count, rows, top] i32; result: [count, rows * top,
// columns].
struct TopChoice {
  std::int64_t top = 1;
  std::int64_t before = 0;
  bool causal = false;
  double temperature = 1;
  Tensor real = {};
};
Tensor choose_blocks(const Tensor& scores, const TopChoice& options);
Variable top_weights(const Variable& scores, const Tensor& choice, const TopChoice& options);

struct SinkhornAttention {
  std::int64_t block = 64;  // tokens; divides the length
  // Blocks that each block sees beside its own, each the weighted choice of one; 0: one, a nearly
  // doubly stochastic mixture of all. Causal attention chooses.
  std::int64_t top = 0;
  double temperature = 0.75;
  std::int64_t iterations = 7;
  Tensor uniform = {};  // [batch * heads, blocks, blocks], makes the Gumbel noise; none: no noise
  // Only earlier blocks and the tokens up to the query. Where there are too few earlier blocks the
  // null key and value, [1, heads, dim], stand in.
  bool causal = false;
  Variable null_key = {};
  Variable null_value = {};
  // Heads from this one on have blocks that begin block - 1 later, the first tokens at the end
  // (causal); as many as there are heads: none.
  std::int64_t rotated_from = 0;
  // Mixed values are the mixed keys, as the authors' code had it.
  bool values_are_keys = false;
  // Tokens that are padding, of attention that is not causal: as in MixedPadding.
  Tensor padding = {};
  Tensor length = {};
  bool padding_by_largest = false;
  // Makes the choice of blocks, or which mixed keys are padding, or gives one made before; empty:
  // it is made.
  using Decide = std::function<Tensor(const std::function<Tensor()>&)>;
  Decide decide = {};
  Decide decide_padding = {};
};

// What blocks see. query: [batch * blocks, block, heads, dim]; key, value: [batch * blocks, (top +
// 1) block, heads, dim], the mixed blocks and then the block itself; weights: of the mixed.
struct SortedBlocks {
  Variable query;
  Variable key;
  Variable value;
  AttentionMask mask;
  Variable weights;  // [batch * heads, blocks * top, blocks (after the null blocks)]
};
SortedBlocks sorted_blocks(const Variable& query,
                           const Variable& key,
                           const Variable& value,
                           const SinkhornAttention& options);
// What blocks made of it, [batch * blocks, block, heads, dim], as [batch, time, heads, dim].
Variable unsorted_blocks(const Variable& mixed,
                         std::int64_t batch,
                         const SinkhornAttention& options);

// Softmax attention over these. query, key, value: [batch, time, heads, dim]. The dropout's batch
// rows are blocks: `batch_begin` counts rows of the batch.
Variable sinkhorn_attention(const Variable& query,
                            const Variable& key,
                            const Variable& value,
                            const SinkhornAttention& options,
                            const std::optional<AttentionDropout>& dropout = {});

}  // namespace longspan
