// Softmax attention in tiles: memory linear in the length, the backward pass rebuilds each tile
// from the saved log-sum-exp (Dao et al. 2022). Which tiles are visited is a TilePlan, made from a
// Mask; what is added to or multiplied into a score is a term. Kernels read [batch, time, heads,
// dim] as the linear layers write it.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "framework/kernels/attention/mask.h"

namespace longspan {

// Sequences that were sorted (hash attention; each head has its own order), or have several parts.
// A key is seen only where its position is not negative, is not later than the query's if `causal`,
// and its bucket is the query's if buckets are given. i32; the query's arrays [batch, heads, time],
// the key's [batch, heads, keys]. Not looked at by the plan. Terms by distance want none `causal`.
struct SortedSequence {
  Tensor query_position;
  Tensor key_position;
  bool causal = true;
  Tensor query_bucket = {};  // both buckets or neither
  Tensor key_bucket = {};
};

// Which keys a query may see: all of what is given here must agree. Query i stands at the global
// position query_begin + i, key j at key_begin + j, so a call may compute a part of a sequence
// against a part of it (memory: query_begin is its length; ring attention: both are the chunks').
struct AttentionMask {
  HeadMasks rules = masks::causal();
  std::int64_t query_begin = 0;
  std::int64_t key_begin = 0;
  std::int64_t head_begin = 0;  // the global head of head 0, for a table of rules
  Tensor key_padding = {};      // [batch, keys] u8, 1: the key is padding and is not seen
  Tensor key_length = {};       // [batch] i64: keys at this global position and after are padding
  // [batch, time] i64: query i sees no key that stands more than reach[b, i] positions before it.
  // Where documents share a row it is the place of each token in its document. Where it reaches
  // back to, p - reach, never goes back from one query to the next.
  Tensor max_lookback = {};
  std::optional<SortedSequence> sorted = {};
};

// Transformer-XL (Dai et al. 2019): the score is scale * ((q_i + u).k_j + (q_i + v).r_{p - k}).
// Every allowed pair needs 0 <= p - k < distances. The shift costs nothing: tiles read the distance
// they need.
struct RelativeTerm {
  Tensor position_key;   // r: [distances, heads, dim]; row d is the key of distance d
  Tensor content_bias;   // u: [heads, dim]
  Tensor position_bias;  // v: [heads, dim]
};

// Shaw et al. 2018, with r = clip(k - p, -K, K) + K:
//   the score is scale * q_i.(k_j + a_r), the value v_j + b_r.
// One pair of tables for all heads, in the dtype of the query. Either may be undefined.
struct ShawTerm {
  Tensor key_table = {};    // a: [2 K + 1, dim]
  Tensor value_table = {};  // b: [2 K + 1, value_dim]
  bool of_keys = false;     // the score has scale * k_j.a_r too (Huang et al. 2020, method 4)
};

// Adaptive span (Sukhbaatar et al. 2019): the probabilities are m e^s / sum((m + floor) e^s) with
// m = clamp((ramp + z - x) / ramp, 0, 1) at distance x = p - k - first. Pairs where m is 0 are
// visited if the mask allows them: cut it with a window of z + ramp.
struct SpanTerm {
  Tensor span;  // z: [heads], or [batch, time, heads] where it depends on the token; accumulator
                // dtype
  double ramp = 32;
  std::int64_t first = 1;  // the distance p - k of the nearest key counts as 0
  double floor = 1e-8;     // 0, or at least 1e-30
};

// Hash attention with shared queries and keys (Kitaev et al. 2020).
struct LshTerm {
  // The score of a pair with equal original positions, in place of the product: a token attends to
  // itself only where nothing else is allowed. -1e5 is the usual one; the log-sum-exp of a row that
  // sees only itself is as large, so in f32 -1e3 keeps the gradient exact to 1e-4 where -1e5 keeps
  // it to 1e-2. Without a sorted mask the positions are the global ones.
  std::optional<double> self_score = {};
  // Divides e^s by the number of rounds in which the pair met (spec of the union: each key counts
  // once). chunk: [batch, heads, rounds, positions] i32, the chunk of each original position in
  // each round. A round counts where chunk(k) - chunk(p) is in [-look_back, look_ahead], and the
  // buckets [batch, heads, rounds, positions] i32, if given, are equal. Chunks are taken modulo
  // `chunks` where it is not 0. Undefined: no division. Needs a sorted mask.
  Tensor chunk = {};
  Tensor bucket = {};
  std::int64_t look_back = 1;
  std::int64_t look_ahead = 0;
  std::int64_t chunks = 0;
  double count_floor = 0;  // added to the number; a pair that met in no round counts as met in one
                           // where this is 0
};

// Dropout on the probabilities. Element (batch, head, i, j) has the global index
// ((B * heads_total + H) * time_total + time_begin + i) * keys_total + keys_begin + j, where B =
// batch_begin + batch and H = head_begin + head. A total of 0 stands for the call's own extent. So
// a part of a sequence draws what the whole draws. With a fold F the call is over the view [batch,
// time / F, F * heads, dim] of a sequence, whose totals are given: row i of the view's head r *
// heads + h is position i F + r of head h, and draws as it.
struct AttentionDropout {
  double rate = 0;
  Random random;
  std::int64_t batch_begin = 0;
  std::int64_t head_begin = 0;
  std::int64_t heads_total = 1;
  std::int64_t time_begin = 0;
  std::int64_t time_total = 0;
  std::int64_t keys_begin = 0;
  std::int64_t keys_total = 0;
  std::int64_t fold = 1;
};

// query: [batch, time, heads, dim]; key: [batch, keys, key heads, dim]; value: [batch, keys, key
// heads, value_dim]. Key heads divide heads, and head h reads the key head h / (heads / key heads).
// out: [batch, time, heads, value_dim] and log_sum_exp: [batch, heads, time]
// (accumulator dtype) are written. A query that may see no key gets out 0 and log_sum_exp -inf, and
// no gradient.
//
// Terms: at most one of relative and shaw; hash goes with none of the others; slopes and span go
// with each other and with relative or shaw. What does not go together is refused with a sentence.
struct Attention {
  Tensor query;
  Tensor key;
  Tensor value;
  AttentionMask mask;
  std::optional<RelativeTerm> relative = {};
  std::optional<ShawTerm> shaw = {};
  Tensor slopes = {};  // ALiBi (Press et al. 2022): [heads], accumulator dtype; adds
                       // -slope |p - k|. They are constants
  // Learned (Raffel et al. 2020): [heads, 2 K + 1], accumulator dtype; adds
  // distance_bias[h, clip(k - p, -K, K) + K] to the scaled score.
  Tensor distance_bias = {};
  std::optional<SpanTerm> span = {};
  std::optional<LshTerm> hash = {};
  double scale = 0;  // of the products; 0: 1 / sqrt(dim)
  double cap = 0;  // products s, scaled, become cap tanh(s / cap) before anything is added to them;
                   // 0: they do not. Not with a hash
  std::optional<AttentionDropout> dropout = {};
  Tensor out;
  Tensor log_sum_exp;
};
void attention(Cpu, const Attention&);
void attention(Cuda, const Attention&);

// Whether groups of warps make the products of its forward pass, which the environment asks for
// (LONGSPAN_WARP_GROUPS=1) and Hopper alone can; never on a dry device.
bool attends_by_warp_groups(Cuda, const Attention&);

// The gradients of `forward`, whose out and log_sum_exp are read. These may be merged from several
// calls over disjoint parts of the keys (merge_attention; ring attention, unions, rounds of
// hashes): the call then gives the part's share of the gradient of the merged output, and the
// shares of the parts add up to it. dquery, dkey and dvalue are written, in the dtype of the query
// or of its accumulator; with `add` they are added to. Gradients of the terms are added to
// (accumulator dtype), shaped as what they are of. Deterministic for a given number of threads.
struct AttentionGradient {
  Attention forward;
  Tensor dout;
  Tensor dquery;
  Tensor dkey;
  Tensor dvalue;
  bool add = false;
  Tensor dposition_key = {};  // with a relative term
  Tensor dcontent_bias = {};
  Tensor dposition_bias = {};
  Tensor dkey_table = {};  // with a shaw term, where it has the table
  Tensor dvalue_table = {};
  Tensor dspan = {};           // with a span term
  Tensor ddistance_bias = {};  // with a distance bias
};
void attention_backward(Cpu, const AttentionGradient&);
void attention_backward(Cuda, const AttentionGradient&);

// Two attentions of the same queries over disjoint keys become the attention over both: `out` and
// `log_sum_exp` take in `part` and `part_log_sum_exp`. out: [batch, time, heads, value_dim] in the
// dtype of `part` or of its accumulator (which is what rounds least); log_sum_exp: [batch, heads,
// time], accumulator dtype. -inf stands for no key on either side.
struct MergeAttention {
  Tensor out;
  Tensor log_sum_exp;
  Tensor part;
  Tensor part_log_sum_exp;
  // Whose rows the part's are, where they are not all queries in their order: [batch, heads, rows
  // of the part] i32. Negative ones are passed over; none of a head comes twice.
  Tensor position = {};
};
void merge_attention(Cpu, const MergeAttention&);
void merge_attention(Cuda, const MergeAttention&);

// The attention over no key at all, to merge into: out is zero and log_sum_exp -inf. f32 or f64.
void init_merge(Cpu, const Tensor& out, const Tensor& log_sum_exp);
void init_merge(Cuda, const Tensor& out, const Tensor& log_sum_exp);

// Floating-point operations of the scores a mask lets through, forward: 2 dim (and 2 dim for the
// relative term or a key table, twice where keys are multiplied with it too) and 2 value_dim (and 2
// value_dim for a value table) for each allowed pair. Padding does not count where the host can
// read it: on a dry device nobody has said how long rows are, and all are counted as whole. Of a
// sorted sequence, every pair that the rules allow counts.
double attention_flops(const Attention&);
// Those of its backward pass as it is made: products with keys three times, once to make the scores
// again and twice for gradients, and products with values twice. That is 2.5 times the forward pass
// where keys and values are as wide and there are no tables; a model's own figure, which counts
// nothing that is made again, takes twice.
double attention_backward_flops(const Attention&);

}  // namespace longspan
