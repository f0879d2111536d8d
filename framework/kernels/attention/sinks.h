// Attention sinks (Xiao et al. 2023; learned: Miller 2023, gpt-oss): each head has one extra logit
// in the softmax, without a value, so that it can attend to nothing. The probabilities are e^s /
// (e^sink + the sum of e^s).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// Adds the sinks to out [batch, time, heads, dim] and log_sum_exp [batch, heads, time] of an
// attention over all keys. attention_backward on the results then gives the gradients of keys,
// values and queries. sink: [heads], accumulator dtype, as log_sum_exp.
void join_sinks(Cpu, const Tensor& sink, const Tensor& out, const Tensor& log_sum_exp);
void join_sinks(Cuda, const Tensor& sink, const Tensor& out, const Tensor& log_sum_exp);

// Overwrites dsink: [batch, time, heads], accumulator dtype, the contribution of each position to
// the gradient of the sinks. out and log_sum_exp are the results of join_sinks.
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
