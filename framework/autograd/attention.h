// Recorded attention with a computation of its own: additive, strided, linear, random features,
// LSH, routing, Sinkhorn. Masked softmax is in ops.h and ring_attention.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "framework/autograd/chunk_state.h"
#include "framework/autograd/ops.h"
#include "framework/autograd/ring_attention.h"
#include "framework/autograd/variable.h"
#include "framework/kernels/attention/attention.h"
#include "framework/kernels/attention/linear_attention.h"
#include "framework/kernels/attention/mask.h"
#include "framework/kernels/random_features.h"

namespace longspan {

// Attention with additive scores (kernels/attention/additive.h).

// Keys that a query attends to.
struct AdditiveRules {
  bool causal = false;
  std::int64_t query_begin = 0;
  std::int64_t key_begin = 0;
  Tensor length = {};
  Tensor padding = {};
};

// query: [batch, time, heads, dim]; key, value: [batch, keys, heads, dim or value_dim]; weight:
// [heads, dim]. Returns [batch, time, heads, value_dim]. Memory is linear in queries plus keys.
Variable additive_attention(const Variable& query,
                            const Variable& key,
                            const Variable& value,
                            const Variable& weight,
                            const AdditiveRules& rules,
                            const std::optional<AttentionDropout>& dropout);

// Each query's scores also read the previous query's probabilities, through taps [heads, taps,
// dim]. The first query reads `before` [batch, heads, keys], a constant. Undefined `before`: zeros.
// Stores the probabilities. last: [batch, heads, keys], the probabilities of the last query.
struct LocationAwareAttention {
  Variable out;
  Tensor last;
};
LocationAwareAttention location_aware_attention(const Variable& query,
                                                const Variable& key,
                                                const Variable& value,
                                                const Variable& weight,
                                                const Variable& taps,
                                                const AdditiveRules& rules,
                                                const Tensor& before,
                                                const std::optional<AttentionDropout>& dropout);

// Attention to every `stride`-th key with dense tiles, by transposition (Child et al. 2019, section
// 5.5).

// Two sets of keys, disjoint for every head. Heads are numbered as in the call.
struct StridedKeys {
  // Key k is visible from position p under two conditions: p - k is a multiple of `stride`, and
  // `columns` lets floor(p / stride) attend to floor(k / stride). Requires causal columns.
  std::int64_t stride = 1;
  HeadMasks columns = masks::causal();
  // Additional visible keys: rules over positions. None: no keys.
  std::optional<HeadMasks> near = {};
};

// Softmax attention of a sequence to both sets at once. query: [batch, time, heads, dim]; key:
// [batch, time, key heads, dim]; value: [batch, time, key heads, value_dim]. Returns [batch, time,
// heads, value_dim]. Columns are computed over the view [batch, time / stride, stride * heads,
// dim], where they are adjacent. A length not divisible by the stride is padded at its end, where
// no earlier position attends. Dropout draws the same numbers, folded or not.
Variable strided_attention(const Variable& query,
                           const Variable& key,
                           const Variable& value,
                           const StridedKeys& keys,
                           const std::optional<AttentionDropout>& dropout = {});

// Linear attention (Katharopoulos et al. 2020) as a recorded op. Time and memory are linear in the
// length, and the prefix is a state of constant size.

// As kernels/attention/linear_attention.h, with the initial and final state of the sequences.
struct LinearAttentionOptions {
  FeatureMap map = FeatureMap::identity;
  bool causal = true;
  Divisor divisor = Divisor::sum;
  double epsilon = 1e-6;
  // Divides each key feature by its sum over all keys, which gives a distribution over positions
  // (Shen et al. 2018). Requires causal = false and no divisor.
  bool softmax_keys = false;
  // State before the first and after the last position, [batch, heads, features, value_dim + 1] in
  // the accumulator dtype. Causal only. Equal on all ranks that share the sequence.
  ChunkBoundaries state = {};
};

// query: [batch, time, heads, features]; key: [batch, keys, heads, features]; value: [batch, keys,
// heads, value_dim]; log_weight, decay: [batch, keys, heads] in the accumulator dtype, or
// undefined. Returns [batch, time, heads, value_dim]. Forward and backward materialize nothing of
// size time x keys or time x features x value_dim.
//
// With `shares` the rows are those of this rank (ring_attention.h), and each rank sums the state of
// its own ranges. Causal: gathers the states of all ranges, and each range starts from the states
// before it. Otherwise every query reads the sum over all ranks. Collective over shares.ranks,
// forward and backward. Throws Failure for a memory.
Variable linear_attention(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const Variable& log_weight,
                          const Variable& decay,
                          const LinearAttentionOptions& options,
                          const std::optional<SequenceShards>& shares = {});

// LSH attention (Reformer, Kitaev et al. 2020) as a recorded op. The sequence is sorted by bucket
// and split into chunks. Queries attend to keys in the same or a neighboring chunk, in any of
// several hash rounds. Time and memory are linear in the length.

struct LshAttentionOptions {
  std::int64_t buckets = 1;     // ids 0 .. buckets - 1; id `buckets` is padding
  std::int64_t chunk = 64;      // slots per chunk of the sorted sequence
  std::int64_t look_back = 1;   // chunks before its own that a query attends to
  std::int64_t look_ahead = 0;  // chunks after its own
  bool causal = true;           // by original positions
  bool same_bucket = false;     // only keys in the query's bucket
  // Counts a key that occurs in several rounds once: the result is one softmax over the union of
  // the rounds. Otherwise it counts once per occurrence.
  bool count_once = true;
  // true: the chunk before the first one of a round is the last one of the previous round. false:
  // the last one of the same round.
  bool wrap_rounds = false;
  // score of a token with itself; must be so low that it counts only if no other key is visible
  double self_score = -1e5;
  double scale = 0;        // of the query-key products; 0: 1 / sqrt(dim)
  double count_floor = 0;  // added to the number of rounds in which a pair occurs (count_once)
  // [batch, time] u8, 1: padding that is hashed to a regular bucket, as in lucidrains'
  // implementation. It occupies a slot of a chunk, where it is masked. Padding with id `buckets` is
  // sorted to the end and occupies none.
  Tensor hidden = {};
};

// shared: [batch, time, heads, dim], the queries; normalized, they are the keys. value: [batch,
// time, heads, value_dim]. buckets: [batch, heads, rounds, time] i32, chosen by the caller
// (attention/hash_buckets.h), without gradient. Returns [batch, time, heads, value_dim]; zeros,
// without gradient, at padding.
//
// A sequence of one chunk uses full attention. Dropout elements are slots, with one random stream
// per round. Throws Failure for more than one but fewer than 1 + look_back + look_ahead chunks: a
// query would attend to a key twice.
Variable lsh_attention(const Variable& shared,
                       const Variable& value,
                       const Tensor& buckets,
                       const LshAttentionOptions& options,
                       const std::optional<AttentionDropout>& dropout = {});

// Attention inside clusters of tokens (Routing Transformer, Roy et al. 2020) as recorded ops.

// Gathers tokens by position for each head: y[b * groups + g, i, h, :] = x[b, position[b, g, h, i],
// h, :], and zeros where the position is negative. x: [batch, time, heads, dim]; position: [batch,
// groups, heads, width] i32, distinct within a group. Returns [batch * groups, width, heads, dim].
Variable gather_clusters(const Variable& x, const Tensor& position);

// Inverse: the sum of a token over all groups, divided by `floor` plus their number. Zeros for a
// token in no group. y: [batch * groups, width, heads, dim]. Returns [batch, time, heads, dim].
Variable scatter_mean(const Variable& y,
                      const Tensor& position,
                      std::int64_t time,
                      double floor = 0);

struct RoutedAttention {
  // Positions of the members of each cluster, ascending: [batch, clusters, heads, width] i32. One
  // tensor if queries and keys are one projection.
  Tensor query_position;
  Tensor key_position;
  bool causal = true;                     // by positions
  std::optional<double> self_score = {};  // score of a token with itself; none: the product
  double count_floor = 0;                 // added to the number of clusters of a token
  // Extra keys and values of each cluster, visible to all of its queries: [clusters, rows, heads,
  // dim], may be undefined. Not supported with a self score.
  Variable memory_key = {};
  Variable memory_value = {};
};

// Returns the mean, over the clusters of a query, of its softmax attention to the cluster's
// members, or zeros if it is in no cluster. query, key, value: [batch, time, heads, dim]. Batch
// rows of the dropout are clusters: `batch_begin` counts rows of the batch.
Variable routed_attention(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const RoutedAttention& options,
                          const std::optional<AttentionDropout>& dropout = {});

// Attention of a token to itself and the `width` previous tokens of its cluster. cluster: [batch,
// heads, 1, time] i32 from attention/clusters.h. Padding is masked, as query and key. No token
// depends on a later one.
struct CausalClusters {
  Tensor cluster;
  std::int64_t clusters = 1;
  std::int64_t width = 1;
  std::optional<double> self_score = {};
};
Variable clustered_attention(const Variable& query,
                             const Variable& key,
                             const Variable& value,
                             const CausalClusters& options,
                             const std::optional<AttentionDropout>& dropout = {});

// Sparse Sinkhorn attention (Tay et al. 2020) as recorded ops: blocks attend to mixtures of blocks.

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

// Random features of queries and keys, and key weights of linear attention, as recorded ops.

// x: [batch, time, heads, dim]; projection: W, [count, dim], any floating dtype, a constant shared
// by all heads. features: [batch, time, heads, features]; shift: [batch, time, heads] in the
// accumulator dtype, for softmax features only: they are scaled by exp(-shift). Projected rows are
// computed in chunks and not stored.
struct StabilizedFeatures {
  Variable features;
  Tensor shift;
};
StabilizedFeatures random_features(const Variable& x,
                                   const Tensor& projection,
                                   const RandomFeatures& map);

// Key weights that compensate the shifts (kernels/attention/key_weights.h): log_weight and, if
// causal, decay [batch, keys, heads]. first: [batch, heads], largest shift of the prefix, or
// undefined. last, if defined, receives the largest shift up to the last key. Collective over
// shares.ranks.
struct KeyWeights {
  Tensor log_weight;
  Tensor decay;
};
KeyWeights weights_of_stabilizers(const Tensor& shift,
                                  bool causal,
                                  const std::optional<SequenceShards>& shares = {},
                                  const Tensor& first = {},
                                  const Tensor& last = {});

// log sigmoid(gate) and log(1 - sigmoid(gate)) in the accumulator dtype, in the shape of `gate`.
struct GatedWeights {
  Variable decay;
  Variable log_weight;
};
GatedWeights gated_weights(const Variable& gate);

// Softmax over the last axis.
Variable softmax_of_features(const Variable& x);
// Returns exp(x - max over positions), 0 at hidden keys: the numerator of a softmax over positions.
// x: [batch, time, heads, dim]; log_weight: [batch, time, heads], -inf hides, or undefined. The
// maximum is a constant. Collective over shares.ranks.
Variable exponentials_of_positions(const Variable& x,
                                   const Tensor& log_weight,
                                   const std::optional<SequenceShards>& shares = {});

// Returns x * weight for x [..., width] and a weight of `width` elements, in x's dtype or its
// accumulator dtype.
Variable scale_features(const Variable& x, const Variable& weight);

}  // namespace longspan
