// Attention sinks: of each head a number that has a part of the softmax and gives no value, so that
// a head need not look at anything (Xiao et al. 2023; learned ones: Miller 2023, gpt-oss). The
// probabilities are e^s / (e^sink + the sum of e^s).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// out [batch, time, heads, dim] and log_sum_exp [batch, heads, time] of an attention over all keys
// become those with the sinks. Gradients of keys, values and queries are then those that
// attention_backward makes of both. sink: [heads], in the accumulator dtype as log_sum_exp is.
void join_sinks(Cpu, const Tensor& sink, const Tensor& out, const Tensor& log_sum_exp);
void join_sinks(Cuda, const Tensor& sink, const Tensor& out, const Tensor& log_sum_exp);

// Of both as join_sinks leaves them: what each position gives to the gradient of the sinks, [batch,
// time, heads] in the accumulator dtype, written.
struct SinkGradients {
  Tensor sink;
  Tensor out;
  Tensor log_sum_exp;
  Tensor dout;
  Tensor dsink;
};
void sink_gradients(Cpu, const SinkGradients&);
void sink_gradients(Cuda, const SinkGradients&);

}  // namespace longspan
