// Attention without a softmax: a query meets a key by the product of their features, so that all
// that came before a position is one sum (Katharopoulos et al. 2020). Time is linear in the length.
//   w_ij = exp(log_weight_j + sum of decay_l over j < l <= i), over the keys j that i sees
//   n_i = sum_j w_ij (q_i.k_j) v_j,  d_i = sum_j w_ij q_i.k_j,  out_i = n_i / divisor(d_i)
// The state of a head is [features, value_dim + 1]: the sum of w k v^T, and in the last column that
// of w k. Parts of a sequence are computed side by side, on one processor or on several ranks: each
// begins with the state of what came before it.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/range.h"
#include "framework/core/tensor.h"

namespace longspan {

// The feature map that is applied to queries and keys as they are read: the identity, or elu(x)
// + 1. With `exponential` they are exponentials already, and dquery and dkey are the gradients of
// their logarithms.
enum class FeatureMap : std::uint8_t { identity, elu_plus_one, exponential };

enum class Divisor : std::uint8_t {
  none,        // out = n
  sum,         // d + epsilon
  away_from_0  // d, where |d| < epsilon the epsilon with its sign
};

// query: [batch, time, heads, features]; key: [batch, keys, heads, features]; value: [batch, keys,
// heads, value_dim], all of one floating dtype. Causal: as many keys as queries, i sees j <= i.
// Otherwise every query sees all keys, and there is no decay.
struct LinearAttention {
  Tensor query;
  Tensor key;
  Tensor value;
  FeatureMap map = FeatureMap::identity;
  bool causal = true;
  // [batch, keys, heads], accumulator dtype; each may be undefined: 0. A weight of -inf hides a key
  // whatever stands there. A decay is at most 0.
  Tensor log_weight = {};
  Tensor decay = {};
  Divisor divisor = Divisor::sum;
  double epsilon = 1e-6;
  Ranges parts = {};      // of the queries' rows, in the order of time
  Ranges key_parts = {};  // the same of the keys': where causal, equal
  // [parts, batch, heads, features, value_dim + 1], accumulator dtype: the state before each part,
  // or, where not causal, [1, ...], that of all keys. Undefined: nothing came before.
  Tensor before = {};
  Tensor out = {};       // [batch, time, heads, value_dim]
  Tensor divisors = {};  // [batch, time, heads], accumulator dtype; not with Divisor::none
};

// states[p] = what the keys of key part p add to a state, at its end; decays[p] = the sum of its
// decays. states: [key parts, batch, heads, features, value_dim + 1]; decays: [key parts, batch,
// heads], or undefined where there is no decay. Both in the accumulator dtype.
void linear_states(Cpu, const LinearAttention&, const Tensor& states, const Tensor& decays);
void linear_states(Cuda, const LinearAttention&, const Tensor& states, const Tensor& decays);

// Writes out and divisors.
void linear_attention(Cpu, const LinearAttention&);
void linear_attention(Cuda, const LinearAttention&);

// dquery, dkey and dvalue are written, in the dtype of what they are of; dlog_weight and ddecay in
// the accumulator dtype, where they are defined. `after`: the gradient with respect to the state at
// the end of each part, or, where not causal, [1, ...], to that of all keys; undefined: nobody
// comes after.
struct LinearAttentionGradient {
  LinearAttention forward;
  Tensor dout;
  Tensor after = {};
  Tensor dquery;
  Tensor dkey;
  Tensor dvalue;
  Tensor dlog_weight = {};
  Tensor ddecay = {};
};
// states[p] = the gradient with respect to the state before part p that its own queries make.
void linear_states_backward(Cpu, const LinearAttentionGradient&, const Tensor& states);
void linear_states_backward(Cuda, const LinearAttentionGradient&, const Tensor& states);
void linear_attention_backward(Cpu, const LinearAttentionGradient&);
void linear_attention_backward(Cuda, const LinearAttentionGradient&);

// In place, each part's own share becomes what came before it (backwards: what comes after it):
//   sum = first; for p in order: states[p], sum = sum, sum exp(decays[p]) + states[p]
// states: [parts, batch, heads, features, columns]; decays: [parts, batch, heads] or undefined;
// first, last: [batch, heads, features, columns] or undefined; last is written. All in one dtype,
// f32 or f64.
struct StateScan {
  Tensor states;
  Tensor decays = {};
  std::vector<std::int64_t> order;  // of time, or backwards: each part once
  Tensor first = {};
  Tensor last = {};
};
void scan_states(Cpu, const StateScan&);
void scan_states(Cuda, const StateScan&);

inline constexpr std::int64_t linear_chunk = 64;  // rows that are computed at once

// Floating-point operations of the products: those of every row with the state, which is what the
// mathematics needs, and with those of the pairs within a chunk and of states made again.
struct LinearFlops {
  double needed;
  double made;
};
LinearFlops linear_attention_flops(const LinearAttention&);
LinearFlops linear_attention_backward_flops(const LinearAttention&);

// The parts in which so many rows of `pairs` heads (of all batch rows) are best computed, so that
// there is work for all of the processor: parts cost a pass over keys and values more.
Ranges linear_parts(const Device& device, std::int64_t pairs, std::int64_t rows);

// Throw Failure where shapes or dtypes are not as said above.
void check(const LinearAttention&);
void check(const LinearAttentionGradient&);
void check(const StateScan&);

}  // namespace longspan
