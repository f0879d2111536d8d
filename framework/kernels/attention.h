// Softmax attention in tiles: memory linear in the length, the backward pass rebuilds each tile
// from the saved log-sum-exp (Dao et al. 2022). Kernels read [batch, time, heads, dim] as the
// linear layers write it.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/core/random.h"
#include "framework/core/tensor.h"

namespace longspan {

// Which keys a query may see. Query i (0 .. time-1) stands at position i + offset among the keys (0
// .. keys-1).
struct AttentionMask {
  std::int64_t offset = 0;  // keys - time: the length of the memory
  bool causal = true;       // key j only if j <= i + offset
  std::int64_t window = 0;  // 0: any distance; else only if i + offset - j < window
  Tensor key_padding =
      {};  // [batch, keys] u8, 1: the key is padding and is not seen; undefined: none is
};

// Transformer-XL (Dai et al. 2019): the score is ((q_i + u).k_j + (q_i + v).r_{i + offset - j}) /
// sqrt(dim). Needs a causal mask. The shift costs nothing: tiles read the distance they need.
struct RelativeTerm {
  Tensor
      position_key;  // r: [distances, heads, dim]; row d is the key of distance d; distances = keys
  Tensor content_bias;   // u: [heads, dim]
  Tensor position_bias;  // v: [heads, dim]
};

// Dropout on the probabilities; element (batch, head, i, j) has the global index
// ((batch_begin + b) * heads_total + head_begin + h) * time * keys + i * keys + j.
struct AttentionDropout {
  double rate = 0;
  Random random;
  std::int64_t batch_begin = 0;
  std::int64_t head_begin = 0;
  std::int64_t heads_total = 1;
};

// query: [batch, time, heads, dim]; key: [batch, keys, heads, dim]; value: [batch, keys, heads,
// value_dim]. out: [batch, time, heads, value_dim] and log_sum_exp: [batch, heads, time]
// (accumulator dtype) are written. A query that may see no key gets out 0 and log_sum_exp -inf, and
// no gradient. The scale is 1/sqrt(dim).
struct Attention {
  Tensor query;
  Tensor key;
  Tensor value;
  AttentionMask mask;
  std::optional<RelativeTerm> relative = {};
  std::optional<AttentionDropout> dropout = {};
  Tensor out;
  Tensor log_sum_exp;
};
void attention(Cpu, const Attention&);

// The gradients of `forward`, whose out and log_sum_exp are read. dquery, dkey and dvalue are
// written (dtype of the query). With a relative term dposition_key [distances, heads, dim],
// dcontent_bias and dposition_bias [heads, dim] (accumulator dtype) are added to. Deterministic for
// a given number of threads.
struct AttentionGradient {
  Attention forward;
  Tensor dout;
  Tensor dquery;
  Tensor dkey;
  Tensor dvalue;
  Tensor dposition_key = {};
  Tensor dcontent_bias = {};
  Tensor dposition_bias = {};
};
void attention_backward(Cpu, const AttentionGradient&);

// Floating-point operations of the scores a mask lets through, forward: 2 dim (and 2 dim for the
// relative term) and 2 value_dim for each allowed pair. The backward pass is counted as twice that.
double attention_flops(const Attention&);

}  // namespace longspan
