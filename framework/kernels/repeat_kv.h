// Key and value heads shared by several query heads (Shazeer 2019; Ainslie et al. 2023).
#pragma once

#include "framework/core/tensor.h"

namespace longspan {

// y[r, h, :] = x[r, h / times, :]. x: [rows, heads, dim], y: [rows, times heads, dim] (leading axes
// flattened), same dtype. times is the ratio of their heads. Overwrites y.
void repeat_kv(Cpu, const Tensor& x, const Tensor& y);
void repeat_kv(Cuda, const Tensor& x, const Tensor& y);

// Gradient of repeat_kv: dx[r, h, :] = the sum of dy over the `times` heads that share h, in the
// accumulator dtype. dy has the dtype of dx or its accumulator dtype. Overwrites dx, or adds to it
// with `add`.
void sum_grouped_heads(Cpu, const Tensor& dy, const Tensor& dx, bool add = false);
void sum_grouped_heads(Cuda, const Tensor& dy, const Tensor& dx, bool add = false);

}  // namespace longspan
