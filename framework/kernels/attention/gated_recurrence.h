// Gated linear recurrences: linear attention whose state forgets, and may be corrected by what it
// already holds (retention, GLA, Mamba-2, delta rules, RWKV-7). For each head, over its tokens:
//   S_t = (diag(e^g_t) + b_t a_t^T) S_(t-1) + k_t v_t^T,   y_t = scale S_t^T q_t
// S: [key_dim, value_dim]. The delta rule with step size beta (Yang et al. 2024) is
//   S_t = (I - beta_t k_t k_t^T) diag(e^g_t) S_(t-1) + beta_t k_t v_t^T.
// The state and the gates are in the accumulator dtype. Gates are multiplied only while their
// product is a normal number, so a gate that underflows to 0 is harmless.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Tokens after which the forward pass stores the state, from which the backward pass recomputes.
inline constexpr std::int64_t recurrence_segment = 256;

// query, key: [batch, time, heads, key_dim]; value: [batch, time, heads, value_dim], all of one
// floating dtype.
struct GatedRecurrence {
  Tensor query;
  Tensor key;
  Tensor value;
  double scale = 1;
  // g: [batch, time, heads], or [batch, time, heads, key_dim] for a gate of each channel; in the
  // accumulator dtype, at most 0. Undefined: 0.
  Tensor log_decay = {};
  Tensor beta = {};  // [batch, time, heads], accumulator dtype: the delta rule
  // a and b, as the key: both or neither. Excludes beta.
  Tensor a = {};
  Tensor b = {};
  // [batch, time] i64: the position of each token in its document. At 0 the state before it is
  // zero.
  Tensor document_position = {};
  Tensor initial = {};  // [batch, heads, key_dim, value_dim], accumulator dtype; undefined: zero
  Tensor out = {};      // as value
  Tensor final_state = {};  // as initial; undefined: not needed
  // [segments, batch, heads, key_dim, value_dim], accumulator dtype: the state before each segment
  // of recurrence_segment tokens. Undefined: no backward pass follows.
  Tensor checkpoints = {};

  bool has_channel_gates() const {
    return log_decay.defined() && log_decay.shape().dimensions() == 4;
  }
  std::int64_t segments() const {
    return (query.shape()[1] + recurrence_segment - 1) / recurrence_segment;
  }
};

// Writes out, final_state and checkpoints.
void gated_recurrence(Cpu, const GatedRecurrence&);
void gated_recurrence(Cuda, const GatedRecurrence&);

// Overwrites the gradients that are defined: each in the shape and dtype of its tensor, dinitial as
// initial. dfinal: the gradient of final_state; undefined: zero. Requires checkpoints.
struct GatedRecurrenceGradient {
  GatedRecurrence forward;
  Tensor dout;
  Tensor dfinal = {};
  Tensor dquery;
  Tensor dkey;
  Tensor dvalue;
  Tensor dlog_decay = {};
  Tensor dbeta = {};
  Tensor da = {};
  Tensor db = {};
  Tensor dinitial = {};
};
void gated_recurrence_backward(Cpu, const GatedRecurrenceGradient&);
void gated_recurrence_backward(Cuda, const GatedRecurrenceGradient&);

// Floating-point operations of the products with the state. `made` includes recomputed states.
struct RecurrenceFlops {
  double needed;
  double made;
};
RecurrenceFlops gated_recurrence_flops(const GatedRecurrence&);
RecurrenceFlops gated_recurrence_backward_flops(const GatedRecurrence&);

// Throw Failure if shapes or dtypes do not match the comments above. check_forward also requires
// out.
void check(const GatedRecurrence&);
void check_forward(const GatedRecurrence&);
void check(const GatedRecurrenceGradient&);

}  // namespace longspan
