// What efficient attention (Shen et al. 2018) makes of queries and keys: a softmax over the
// features of each query, and one over the positions of each feature of the keys.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y = softmax of each row. x, y: [rows, width], of one dtype; y may be x.
void softmax_rows(Cpu, const Tensor& x, const Tensor& y);
void softmax_rows(Cuda, const Tensor& x, const Tensor& y);
// dx = y (dy - y.dy), written. dx may be dy.
void softmax_rows_backward(Cpu, const Tensor& y, const Tensor& dy, const Tensor& dx);
void softmax_rows_backward(Cuda, const Tensor& y, const Tensor& dy, const Tensor& dx);

// tops[b, h, d] = the largest x[b, :, h, d], -inf of none. x: [batch, time, heads, dim]; tops:
// [batch, heads, dim], accumulator dtype. log_weight: [batch, time, heads], accumulator dtype, or
// undefined: a key where it is -inf is passed over.
void max_over_positions(Cpu, const Tensor& x, const Tensor& log_weight, const Tensor& tops);
void max_over_positions(Cuda, const Tensor& x, const Tensor& log_weight, const Tensor& tops);
// y = exp(x - tops), 0 at keys that are passed over.
void exponentials_of_positions(
    Cpu, const Tensor& x, const Tensor& log_weight, const Tensor& tops, const Tensor& y);
void exponentials_of_positions(
    Cuda, const Tensor& x, const Tensor& log_weight, const Tensor& tops, const Tensor& y);

// In place: each row of a state but its last element, by which it is divided; 0 where that is 0.
// states: [rows, values + 1] (leading axes flattened), f32 or f64.
void divide_states(Cpu, const Tensor& states);
void divide_states(Cuda, const Tensor& states);
// gradients, in place: with respect to such a row after, then before it was divided. states: after.
void divide_states_backward(Cpu, const Tensor& states, const Tensor& gradients);
void divide_states_backward(Cuda, const Tensor& states, const Tensor& gradients);

}  // namespace longspan
