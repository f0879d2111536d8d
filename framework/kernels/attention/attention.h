// Tiled softmax attention: memory is linear in the sequence length, and the backward pass
// recomputes each tile from the saved log-sum-exp (FlashAttention, Dao et al. 2022). A TilePlan,
// built from a Mask, lists the tiles to visit. A term adds to or multiplies a score. Kernels read
// [batch, time, heads, dim], the layout that linear layers write.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "framework/kernels/attention/mask.h"

namespace longspan {

// Sequences that are permuted (hash attention; each head has its own order) or concatenated from
// several parts. A key is visible only if its position is not negative and, if `causal`, not later
// than the query's. If buckets are given, both must be in the same bucket. i32; the query's arrays
// are [batch, heads, time], the key's [batch, heads, keys]. The plan ignores them.
// Relative-position terms require `causal` false.
struct SortedSequence {
  Tensor query_position;
  Tensor key_position;
  bool causal = true;
  Tensor query_bucket = {};  // both buckets or neither
  Tensor key_bucket = {};
};

// Visible keys of each query: the intersection of all the constraints given here. Query i has the
// global position query_begin + i, key j key_begin + j. A call may therefore compute one chunk of a
// sequence against another. With Transformer-XL memory, query_begin is the memory length; in ring
// attention both are chunk offsets.
struct AttentionMask {
  HeadMasks rules = masks::causal();
  std::int64_t query_begin = 0;
  std::int64_t key_begin = 0;
  std::int64_t head_begin = 0;  // the global head of head 0, for a table of rules
  Tensor key_padding = {};      // [batch, keys] u8, 1: the key is padding
  Tensor key_length = {};       // [batch] i64: keys at this global position and after are padding
  // [batch, time] i64: query i sees no key more than max_lookback[b, i] positions before it. For
  // packed documents, this is the token's position in its document. The earliest visible position,
  // p - max_lookback, must not decrease from one query to the next.
  Tensor max_lookback = {};
  std::optional<SortedSequence> sorted = {};
};

// Transformer-XL (Dai et al. 2019): the score is scale * ((q_i + u).k_j + (q_i + v).r_{p - k}).
// Every allowed pair needs 0 <= p - k < distances. The relative shift is free: tiles read the rows
// of their relative positions.
struct RelativeTerm {
  Tensor position_key;   // r: [distances, heads, dim]; row d is the key at relative position d
  Tensor content_bias;   // u: [heads, dim]
  Tensor position_bias;  // v: [heads, dim]
};

// Shaw et al. 2018, with r = clip(k - p, -K, K) + K:
//   the score is scale * q_i.(k_j + a_r), the value v_j + b_r.
// All heads share one pair of tables, in the dtype of the query. Either may be undefined.
struct ShawTerm {
  Tensor key_table = {};    // a: [2 K + 1, dim]
  Tensor value_table = {};  // b: [2 K + 1, value_dim]
  bool of_keys = false;     // adds scale * k_j.a_r to the score (Huang et al. 2020, method 4)
};

// Adaptive span (Sukhbaatar et al. 2019), with x = p - k - first:
//   m = clamp((ramp + z - x) / ramp, 0, 1), probability = m e^s / sum((m + floor) e^s)
// Pairs with m = 0 are visited if the mask allows them; intersect it with a window of z + ramp.
struct SpanTerm {
  Tensor span;  // z: [heads], or [batch, time, heads] for token-dependent spans; accumulator dtype
  double ramp = 32;
  std::int64_t first = 1;  // the relative position p - k of the nearest key, which has x = 0
  double floor = 1e-8;     // 0, or at least 1e-30
};

// Hash attention with shared queries and keys (Kitaev et al. 2020).
struct LshTerm {
  // The score of a pair with equal original positions, replacing the product: a token attends to
  // itself only if nothing else is allowed. -1e5 is customary. The log-sum-exp of a row that sees
  // only itself is as large: in f32, -1e3 keeps the gradient exact to 1e-4, and -1e5 to 1e-2.
  // Without a sorted mask the positions are the global ones.
  std::optional<double> self_score = {};
  // Divides e^s by the number of rounds in which the pair shares a bucket, so that the union over
  // rounds counts each key once. chunk: [batch, heads, rounds, positions] i32, the chunk of each
  // original position in each round. A round counts if chunk(k) - chunk(p) is in [-look_back,
  // look_ahead], and the buckets [batch, heads, rounds, positions] i32, if given, are equal. Chunks
  // are taken modulo `chunks` unless it is 0. Undefined: no division. Requires a sorted mask.
  Tensor chunk = {};
  Tensor bucket = {};
  std::int64_t look_back = 1;
  std::int64_t look_ahead = 0;
  std::int64_t chunks = 0;
  // added to the number of rounds; if 0, a pair without a common round counts as one round
  double count_floor = 0;
};

// Dropout on the probabilities. Element (batch, head, i, j) has the global index
//   ((B * heads_total + H) * time_total + time_begin + i) * keys_total + keys_begin + j,
// where B = batch_begin + batch and H = head_begin + head. A total of 0 means the call's own
// extent. A chunk of a sequence thus has the same mask as the full sequence. With a fold F the call
// operates on the view [batch, time / F, F * heads, dim] of a sequence, whose totals are given. Row
// i of the view's head r * heads + h is position i F + r of head h, and uses its mask.
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
// Overwrites out: [batch, time, heads, value_dim] and log_sum_exp: [batch, heads, time]
// (accumulator dtype). A query without visible keys has out 0, log_sum_exp -inf and no gradient.
//
// Terms: at most one of relative and shaw; hash excludes all others; slopes and span can be
// combined with each other and with relative or shaw. Throws Failure on other combinations.
struct Attention {
  Tensor query;
  Tensor key;
  Tensor value;
  AttentionMask mask;
  std::optional<RelativeTerm> relative = {};
  std::optional<ShawTerm> shaw = {};
  // ALiBi (Press et al. 2022): [heads], accumulator dtype; adds -slope |p - k|. Constants: they
  // have no gradient.
  Tensor slopes = {};
  // Learned bias (Raffel et al. 2020): [heads, 2 K + 1], accumulator dtype; adds distance_bias[h,
  // clip(k - p, -K, K) + K] to the scaled score.
  Tensor distance_bias = {};
  std::optional<SpanTerm> span = {};
  std::optional<LshTerm> hash = {};
  double scale = 0;  // factor of the products; 0: 1 / sqrt(dim)
  // scaled products s become cap tanh(s / cap) before terms are added; 0: no cap. Not supported
  // with hash.
  double cap = 0;
  std::optional<AttentionDropout> dropout = {};
  Tensor out;
  Tensor log_sum_exp;
};
void attention(Cpu, const Attention&);
void attention(Cuda, const Attention&);

// Whether the forward pass uses warp-group products (WGMMA). This requires LONGSPAN_HOPPER_WGMMA=1
// in the environment and a Hopper GPU; false on a dry device.
bool attends_by_warp_groups(Cuda, const Attention&);

// The gradients of `forward`, whose out and log_sum_exp are read. They may be merged from several
// calls over disjoint keys (merge_attention; ring attention, unions, hash rounds). Each call then
// computes its partial gradient of the merged output; the partial gradients sum to the full one.
// Overwrites dquery, dkey and dvalue, in the dtype of the query or its accumulator dtype, or adds
// to them with `add`. Gradients of the terms are accumulated (accumulator dtype), shaped as the
// term's tensors. Deterministic for a given number of threads.
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

// Merges two attention results of the same queries over disjoint keys. Updates `out` and
// `log_sum_exp` with `part` and `part_log_sum_exp`. out: [batch, time, heads, value_dim] in the
// dtype of `part` or its accumulator dtype (least rounding error); log_sum_exp: [batch, heads,
// time], accumulator dtype. -inf means no keys on that side.
struct MergeAttention {
  Tensor out;
  Tensor log_sum_exp;
  Tensor part;
  Tensor part_log_sum_exp;
  // The query of each row of the part, if these are not all queries in order: [batch, heads, rows
  // of the part] i32. Negative entries are skipped; no query of a head may repeat.
  Tensor position = {};
};
void merge_attention(Cpu, const MergeAttention&);
void merge_attention(Cuda, const MergeAttention&);

// Initializes the result over no keys, to merge into: out 0 and log_sum_exp -inf. f32 or f64.
void init_merge(Cpu, const Tensor& out, const Tensor& log_sum_exp);
void init_merge(Cuda, const Tensor& out, const Tensor& log_sum_exp);

// Returns the forward floating-point operations of the scores that a mask allows. Each allowed pair
// costs 2 dim for the product and 2 value_dim for the value. The relative term or a key table adds
// 2 dim (twice if it also multiplies keys), a value table 2 value_dim. Padding is excluded if the
// host can read it; on a dry device row lengths are unavailable, and all rows count as full. For a
// sorted sequence, every pair that the rules allow counts.
double attention_flops(const Attention&);
// Returns the floating-point operations that the backward pass performs: three products with keys
// (one recomputes scores, two are gradients) and two with values. That is 2.5 times the forward
// pass if dim equals value_dim and there are no tables. Model FLOPs, which exclude recomputation,
// are twice the forward pass.
double attention_backward_flops(const Attention&);

}  // namespace longspan
