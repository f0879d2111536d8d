// Softmaxes of efficient attention (Shen et al. 2018): over the features of each query, and over
// the positions for each feature of the keys.
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y = softmax of each row. x, y: [rows, width], same dtype; y may alias x.
void softmax_rows(Cpu, const Tensor& x, const Tensor& y);
void softmax_rows(Cuda, const Tensor& x, const Tensor& y);
// dx = y (dy - y.dy). Overwrites dx, which may alias dy.
void softmax_rows_backward(Cpu, const Tensor& y, const Tensor& dy, const Tensor& dx);
void softmax_rows_backward(Cuda, const Tensor& y, const Tensor& dy, const Tensor& dx);

// tops[b, h, d] = the largest x[b, :, h, d], -inf if there is none. x: [batch, time, heads, dim];
// tops: [batch, heads, dim], accumulator dtype. log_weight: [batch, time, heads], accumulator
// dtype, or undefined; keys with -inf are skipped.
void max_over_positions(Cpu, const Tensor& x, const Tensor& log_weight, const Tensor& tops);
void max_over_positions(Cuda, const Tensor& x, const Tensor& log_weight, const Tensor& tops);
// y = exp(x - tops), 0 at skipped keys.
void exponentials_of_positions(
    Cpu, const Tensor& x, const Tensor& log_weight, const Tensor& tops, const Tensor& y);
void exponentials_of_positions(
    Cuda, const Tensor& x, const Tensor& log_weight, const Tensor& tops, const Tensor& y);

// Divides each row of a state by its last element, in place; the row becomes 0 if that is 0.
// states: [rows, values + 1] (leading axes flattened), f32 or f64.
void divide_states(Cpu, const Tensor& states);
void divide_states(Cuda, const Tensor& states);
// Converts gradients in place: from those of the divided row to those of the undivided row. states:
// after the division.
void divide_states_backward(Cpu, const Tensor& states, const Tensor& gradients);
void divide_states_backward(Cuda, const Tensor& states, const Tensor& gradients);

}  // namespace longspan
