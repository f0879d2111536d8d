// Key heads that several query heads share (Shazeer 2019; Ainslie et al. 2023).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[r, h, :] = x[r, h / times, :]. x: [rows, heads, dim], y: [rows, times heads, dim] (leading axes
// flattened), of one dtype; times: their ratio. y is written.
void repeat_kv(Cpu, const Tensor& x, const Tensor& y);
void repeat_kv(Cuda, const Tensor& x, const Tensor& y);

// The gradient: dx[r, h, :] = the sum of dy[r, times h ..., :], in the accumulator. dy has the
// dtype of dx or of its accumulator. dx is written, or with `add` added to.
void sum_grouped_heads(Cpu, const Tensor& dy, const Tensor& dx, bool add = false);
void sum_grouped_heads(Cuda, const Tensor& dy, const Tensor& dx, bool add = false);

}  // namespace longspan
