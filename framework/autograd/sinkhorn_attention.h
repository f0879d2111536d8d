// Sparse Sinkhorn attention (Tay et al. 2020) as recorded ops: blocks attend to mixtures of blocks.
#pragma once

#include <cstdint>
#include <functional>

#include "framework/autograd/ops.h"

namespace longspan {

// As kernels/attention/block_weights.h. scores: [count, blocks, blocks] f32 or f64. The result has
// the same shape.
Variable sinkhorn_weights(const Variable& scores,
                          const Tensor& uniform,
                          double temperature,
                          std::int64_t iterations);
// scores: [count, rows, columns]; choice: [count, rows, top] i32. top_weights returns [count, rows
// * top, columns].
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
  // Number of blocks that each block attends to in addition to its own, each a weighted choice of
  // one block. 0: one, a nearly doubly stochastic mixture of all. Causal attention requires top >
  // 0.
  std::int64_t top = 0;
  double temperature = 0.75;
  std::int64_t iterations = 7;
  // [batch * heads, blocks, blocks], source of the Gumbel noise; undefined: no noise
  Tensor uniform = {};
  // Restricts to earlier blocks and tokens up to the query. If there are too few earlier blocks,
  // uses the null key and value, [1, heads, dim].
  bool causal = false;
  Variable null_key = {};
  Variable null_value = {};
  // First head whose blocks start block - 1 tokens later, with the first tokens at the end
  // (causal). The number of heads: none.
  std::int64_t rotated_from = 0;
  // Uses the mixed keys as mixed values, as in the authors' code.
  bool values_are_keys = false;
  // Padding tokens, only without causality: as in MixedPadding.
  Tensor padding = {};
  Tensor length = {};
  bool padding_by_largest = false;
  // Computes or returns the cached choice of blocks (decide), and of padding mixed keys
  // (decide_padding). Empty: always computes it.
  using Decide = std::function<Tensor(const std::function<Tensor()>&)>;
  Decide decide = {};
  Decide decide_padding = {};
};

// Inputs of blockwise attention. query: [batch * blocks, block, heads, dim]; key, value: [batch *
// blocks, (top + 1) block, heads, dim], the mixed blocks followed by the block itself.
struct SortedBlocks {
  Variable query;
  Variable key;
  Variable value;
  AttentionMask mask;
  // of the mixture, [batch * heads, blocks * top, blocks (after the null blocks)]
  Variable weights;
};
SortedBlocks sorted_blocks(const Variable& query,
                           const Variable& key,
                           const Variable& value,
                           const SinkhornAttention& options);
// Returns the block outputs [batch * blocks, block, heads, dim] as [batch, time, heads, dim].
Variable unsorted_blocks(const Variable& mixed,
                         std::int64_t batch,
                         const SinkhornAttention& options);

// Softmax attention over these blocks. query, key, value: [batch, time, heads, dim]. Batch rows of
// the dropout are blocks: `batch_begin` counts rows of the batch.
Variable sinkhorn_attention(const Variable& query,
                            const Variable& key,
                            const Variable& value,
                            const SinkhornAttention& options,
                            const std::optional<AttentionDropout>& dropout = {});

}  // namespace longspan
