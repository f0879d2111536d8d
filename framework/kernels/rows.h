// Operations on rows [tokens, width]: spans, padding, columns, and key heads.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Token-dependent attention spans (Sukhbaatar et al. 2019, section 2.2).

// z = limit / (1 + exp(-x - bias)). x: [..., heads], any floating dtype; bias: [heads] and z: x's
// shape, both in the accumulator dtype.
void token_spans(Cpu, double limit, const Tensor& x, const Tensor& bias, const Tensor& z);
void token_spans(Cuda, double limit, const Tensor& x, const Tensor& bias, const Tensor& z);

// dx = dz z (1 - z / limit). Overwrites dx, in x's dtype.
void token_spans_backward(Cpu, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx);
void token_spans_backward(Cuda, double limit, const Tensor& z, const Tensor& dz, const Tensor& dx);

// y[b, t, :] = x[b, t, :] for rows t of [begin, end), or 0 if the row is padding. A row is padding
// if its position, `position` + t - begin, is at least `length`[b], or if `padding`[b, position] is
// 1. x, y: [batch, time, ...], one floating dtype; y may alias x. length: [batch] i64; padding:
// [batch, positions] u8; either may be undefined. The operation is linear in x and is its own
// gradient.
struct MaskPadding {
  Tensor x;
  Tensor y;
  Tensor length = {};
  Tensor padding = {};
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t position = 0;
};
void mask_padding(Cpu, const MaskPadding&);
void mask_padding(Cuda, const MaskPadding&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const MaskPadding&);

// Key and value heads shared by several query heads (Shazeer 2019; Ainslie et al. 2023).

// y[r, h, :] = x[r, h / times, :]. x: [rows, heads, dim], y: [rows, times heads, dim] (leading axes
// flattened), same dtype. times is the ratio of their heads. Overwrites y.
void repeat_kv(Cpu, const Tensor& x, const Tensor& y);
void repeat_kv(Cuda, const Tensor& x, const Tensor& y);

// Gradient of repeat_kv: dx[r, h, :] = the sum of dy over the `times` heads that share h, in the
// accumulator dtype. dy has the dtype of dx or its accumulator dtype. Overwrites dx, or adds to it
// with `add`.
void sum_grouped_heads(Cpu, const Tensor& dy, const Tensor& dx, bool add = false);
void sum_grouped_heads(Cuda, const Tensor& dy, const Tensor& dx, bool add = false);

// y[r, c] = x[r, c] factors[c]. x, y: [rows, width] (leading axes flattened, width = elements of
// `factors`), same dtype. factors: that dtype or its accumulator dtype. y may alias x.
void scale_columns(Cpu, const Tensor& x, const Tensor& factors, const Tensor& y);
void scale_columns(Cuda, const Tensor& x, const Tensor& factors, const Tensor& y);

// out = a b element-wise, same dtype; out may alias a or b.
void multiply(Cpu, const Tensor& a, const Tensor& b, const Tensor& out);
void multiply(Cuda, const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace longspan
