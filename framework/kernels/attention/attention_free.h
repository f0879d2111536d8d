// Mixing of tokens without queries, in each channel (attention-free Transformer, AFT; Zhai et al.
// 2021).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// out_t = sum over visible t' of e^(k_t' + w_tt') v_t' / sum of e^(k_t' + w_tt'), in each channel.
//
// Query i has the position query_begin + i, key j the position j. A bias w counts where
// |t - t'| < window, otherwise w = 0. The exponents are relative to the largest visible one, or to
// an upper bound of it. Keys and queries farther apart than the window are summed once for all, so
// time is proportional to length times window. A query without visible keys has the result 0.
struct AttentionFree {
  Tensor key;                    // [batch, keys, channels]
  Tensor value;                  // as key
  std::int64_t query_begin = 0;  // the queries are the positions from here on, at most `keys`
  bool causal = true;            // otherwise query_begin is 0 and all positions are queries
  std::int64_t window = 0;       // 0: no biases
  // [positions, columns], accumulator dtype: row t has the biases of keys 0, 1, ..., or if `banded`
  // those of the keys t - window + 1, ..., t and, if not causal, ..., t + window - 1.
  Tensor bias = {};
  bool banded = false;
  // [batch, queries] i64: query i sees no key more than max_lookback[b, i] positions before it
  // (AttentionMask::max_lookback). Biases then count positions in the document. Only if causal.
  Tensor max_lookback = {};
  // [batch, keys] in the accumulator dtype: -infinity at keys that no query sees, otherwise 0.
  Tensor hidden = {};
  // State of the earlier positions, [batch, 3, channels] in the accumulator dtype: the largest key,
  // and relative to it the sums of e^k v and of e^k. Only without biases, causal.
  Tensor initial = {};
  Tensor final_state = {};  // overwritten if defined
  Tensor out = {};          // [batch, queries, channels], overwritten
  Tensor log_sum = {};      // as out, accumulator dtype: ln of the denominators, overwritten

  std::int64_t queries() const { return key.shape()[1] - query_begin; }
  // Columns of a bias of this window.
  static std::int64_t band(std::int64_t window, bool is_causal) {
    return is_causal ? window : 2 * window - 1;
  }
};
void attention_free(Cpu, const AttentionFree&);
void attention_free(Cuda, const AttentionFree&);

// Overwrites dkey, dvalue, and dbias and dinitial if defined. In `forward`, out and log_sum are the
// results, and final_state is the final state if `dfinal` is defined.
struct AttentionFreeGradient {
  AttentionFree forward;
  Tensor dout;
  Tensor dfinal = {};  // gradient of final_state; that of its largest key counts as 0
  Tensor dkey;
  Tensor dvalue;
  Tensor dbias = {};
  Tensor dinitial = {};
};
void attention_free_backward(Cpu, const AttentionFreeGradient&);
void attention_free_backward(Cuda, const AttentionFreeGradient&);

// Floating-point operations: two multiply-adds for each pair within the window, or one term of a
// sum for each position. The backward pass has twice as many.
double attention_free_flops(const AttentionFree&);

// Throw Failure if shapes or dtypes do not match the comments above.
void check(const AttentionFree&);
void check(const AttentionFreeGradient&);

}  // namespace longspan
