// Additive attention: scores by a small network instead of a product (Bahdanau et al. 2015), which
// may also hear where the query before has looked (location-aware, Chorowski et al. 2015).
#pragma once

#include <cstdint>
#include <optional>

#include "framework/kernels/attention/attention.h"

namespace longspan {

// Features of a head, at most.
inline constexpr int widest_additive_head = 256;

// Of query q_i, key k_j and head h, the score is
//   w_h . tanh(q_i + k_j + sum over r of taps_h[r] a_(i-1)[j + r - taps / 2])
// where a_(i-1) are the probabilities of the query before, 0 outside of its keys; without taps the
// sum is not there. Probabilities are the softmax over the keys that a query sees: position
// key_begin + j before length[b], not padding, and, where causal, not after query_begin + i. A
// query that sees none gives 0 and looks nowhere.
//
// query: [batch, time, heads, dim]; key: [batch, keys, heads, dim]; value: [batch, keys, heads,
// value_dim], of one floating dtype; dim and value_dim at most widest_additive_head. Of its
// accumulator: weight, w [heads, dim], and taps [heads, taps, dim], may be undefined. out: [batch,
// time, heads, value_dim] is written.
//
// Without taps nothing is as large as the pairs: log_sum_exp [batch, heads, time], accumulator
// dtype, is written, and backward scores are made again. With taps probabilities [batch, heads,
// time, keys], accumulator dtype, are written, and queries follow one another.
struct AdditiveAttention {
  Tensor query;
  Tensor key;
  Tensor value;
  Tensor weight;
  Tensor kernel_size = {};
  Tensor before = {};   // with taps: a_(-1) [batch, heads, keys]; undefined: 0
  Tensor length = {};   // [batch] i64; undefined: there is no padding
  Tensor padding = {};  // [batch, keys] u8, 1: the key is padding; may be undefined
  bool causal = false;
  std::int64_t query_begin = 0;
  std::int64_t key_begin = 0;
  std::optional<AttentionDropout> dropout = {};  // of what values are weighed with
  Tensor out;
  Tensor log_sum_exp = {};
  Tensor probabilities = {};
};
void additive_attention(Cpu, const AdditiveAttention&);
void additive_attention(Cuda, const AdditiveAttention&);

// `forward` as it was called. dout: [batch, time, heads, value_dim] of the query's dtype. The
// others are of the accumulator dtype and are written: dquery, dkey and dvalue, of the shapes of
// query, key and value; dweight, whose sum over the first axis is the gradient: [batch x time,
// heads, dim], or with taps [batch, heads, dim]; dtaps: [batch, heads, taps, dim], likewise.
// scratch: [batch, heads, time], or with taps [batch, heads, 2, keys]. `before` is a constant.
struct AdditiveAttentionGradient {
  AdditiveAttention forward;
  Tensor dout;
  Tensor scratch;
  Tensor dquery;
  Tensor dkey;
  Tensor dvalue;
  Tensor dweight;
  Tensor dtaps = {};
};
void additive_attention_backward(Cpu, const AdditiveAttentionGradient&);
void additive_attention_backward(Cuda, const AdditiveAttentionGradient&);

// Throw Failure where shapes or dtypes are not as said above.
void check(const AdditiveAttention&);
void check(const AdditiveAttentionGradient&);

}  // namespace longspan
