// Linear attention: no softmax, the weight of a key is the product of its features with the
// query's. All preceding keys are summarized in one state (Katharopoulos et al. 2020). Time is
// linear in the sequence length.
//   w_ij = exp(log_weight_j + sum of decay_l over j < l <= i), over the keys j visible to i
//   n_i = sum_j w_ij (q_i.k_j) v_j,  d_i = sum_j w_ij q_i.k_j,  out_i = n_i / divisor(d_i)
// The state of a head is [features, value_dim + 1]: the sum of w k v^T, and in the last column the
// sum of w k. Parts of a sequence are computed in parallel, on one device or several ranks; each
// starts from the state at its beginning.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/range.h"
#include "framework/core/tensor.h"

namespace longspan {

// The feature map applied to queries and keys as they are read: the identity, or elu(x) + 1. With
// `exponential` they already are exponentials, and dquery and dkey are the gradients of their
// logarithms.
enum class FeatureMap : std::uint8_t { identity, elu_plus_one, exponential };

enum class Divisor : std::uint8_t {
  none,        // out = n
  sum,         // d + epsilon
  away_from_0  // d; if |d| < epsilon, epsilon with the sign of d
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
  // [batch, keys, heads], accumulator dtype; either may be undefined (0). A weight of -inf hides a
  // key, even if its row is NaN. A decay is at most 0.
  Tensor log_weight = {};
  Tensor decay = {};
  Divisor divisor = Divisor::sum;
  double epsilon = 1e-6;
  Ranges parts = {};      // ranges of query rows, in time order
  Ranges key_parts = {};  // ranges of key rows; if causal, equal to parts
  // [parts, batch, heads, features, value_dim + 1], accumulator dtype: the state before each part,
  // or [1, ...], the state of all keys, if not causal. Undefined: zero.
  Tensor before = {};
  Tensor out = {};       // [batch, time, heads, value_dim]
  Tensor divisors = {};  // [batch, time, heads], accumulator dtype; undefined with Divisor::none
};

// states[p] = the contribution of key part p to the state at its end; decays[p] = the sum of its
// decays. states: [key parts, batch, heads, features, value_dim + 1]; decays: [key parts, batch,
// heads], or undefined without decay. Both in the accumulator dtype.
void linear_states(Cpu, const LinearAttention&, const Tensor& states, const Tensor& decays);
void linear_states(Cuda, const LinearAttention&, const Tensor& states, const Tensor& decays);

// Writes out and divisors.
void linear_attention(Cpu, const LinearAttention&);
void linear_attention(Cuda, const LinearAttention&);

// Overwrites dquery, dkey and dvalue, in the dtypes of their tensors, and dlog_weight and ddecay,
// if defined, in the accumulator dtype. `after`: the gradient with respect to the state at the end
// of each part. If not causal, it is [1, ...], for the state of all keys. Undefined: zero.
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
// states[p] = the contribution of part p's own queries to the gradient of the state before it.
void linear_states_backward(Cpu, const LinearAttentionGradient&, const Tensor& states);
void linear_states_backward(Cuda, const LinearAttentionGradient&, const Tensor& states);
void linear_attention_backward(Cpu, const LinearAttentionGradient&);
void linear_attention_backward(Cuda, const LinearAttentionGradient&);

// Exclusive scan in place: replaces each part's contribution with the state before it (backward:
// the gradient of the state after it):
//   sum = first; for p in order: states[p], sum = sum, sum exp(decays[p]) + states[p]
// states: [parts, batch, heads, features, columns]; decays: [parts, batch, heads] or undefined.
// first, last: [batch, heads, features, columns] or undefined. Overwrites last with the final sum.
// All in one dtype, f32 or f64.
struct StateScan {
  Tensor states;
  Tensor decays = {};
  std::vector<std::int64_t> order;  // time order or its reverse, each part once
  Tensor first = {};
  Tensor last = {};
};
void scan_states(Cpu, const StateScan&);
void scan_states(Cuda, const StateScan&);

inline constexpr std::int64_t linear_chunk = 64;  // rows of a chunk

// Floating-point operations of the products. needed: those of every row with the state. made: also
// those of pairs within a chunk and of recomputed states.
struct LinearFlops {
  double needed;
  double made;
};
LinearFlops linear_attention_flops(const LinearAttention&);
LinearFlops linear_attention_backward_flops(const LinearAttention&);

// Returns the parts into which to split `rows` rows of `pairs` heads (over all batch rows) to
// occupy the whole device. Splitting costs one more pass over keys and values.
Ranges linear_parts(const Device& device, std::int64_t pairs, std::int64_t rows);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const LinearAttention&);
void check(const LinearAttentionGradient&);
void check(const StateScan&);

}  // namespace longspan
