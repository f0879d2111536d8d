// Additive attention: scores from a small network (Bahdanau et al. 2015), optionally
// location-aware: they also depend on the previous query's probabilities (Chorowski et al. 2015).
#pragma once

#include <cstdint>
#include <optional>

#include "framework/kernels/attention/attention.h"

namespace longspan {

// Maximum number of features of a head.
inline constexpr int widest_additive_head = 256;

// The score of query q_i, key k_j and head h is
//   w_h . tanh(q_i + k_j + sum over r of taps_h[r] a_(i-1)[j + r - taps / 2])
// where a_(i-1) are the probabilities of the previous query, 0 outside of its keys. Without taps
// the sum is omitted. Probabilities are the softmax over visible keys: position key_begin + j
// before length[b], not padding, and, if causal, not after query_begin + i. A query without visible
// keys outputs 0 and has probabilities 0.
//
// query: [batch, time, heads, dim]; key: [batch, keys, heads, dim]; value: [batch, keys, heads,
// value_dim], of one floating dtype. dim and value_dim are at most widest_additive_head. weight: w
// [heads, dim], accumulator dtype. kernel_size: the taps [heads, taps, dim], accumulator dtype, may
// be undefined. out: [batch, time, heads, value_dim], overwritten.
//
// Without taps no tensor is as large as the number of pairs: log_sum_exp [batch, heads, time],
// accumulator dtype, is written, and the backward pass recomputes scores. With taps, probabilities
// [batch, heads, time, keys], accumulator dtype, are written, and queries are processed
// sequentially.
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
  std::optional<AttentionDropout> dropout = {};  // of the probabilities
  Tensor out;
  Tensor log_sum_exp = {};
  Tensor probabilities = {};
};
void additive_attention(Cpu, const AdditiveAttention&);
void additive_attention(Cuda, const AdditiveAttention&);

// `forward` holds the arguments of the forward call. dout: [batch, time, heads, value_dim] in the
// query's dtype. The other tensors have the accumulator dtype and are overwritten. dquery, dkey and
// dvalue: shaped as query, key and value. dweight: [batch x time, heads, dim], or with taps [batch,
// heads, dim]. dtaps: [batch, heads, taps, dim]. Their sums over the first axis are the gradients.
// scratch: [batch, heads, time], or with taps [batch, heads, 2, keys]. `before` is treated as a
// constant.
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

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const AdditiveAttention&);
void check(const AdditiveAttentionGradient&);

}  // namespace longspan
