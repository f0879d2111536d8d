// Products along time, for attention whose keys are mixtures of tokens.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"

namespace longspan {

// y[n, j, :] = sum over rows t of x of weight[n modulo sets, position of t, j] x[n, t, :]. x:
// [count, time, ...], rows at `positions` of a longer sequence; weight: [sets, positions, columns].
// Returns [count, columns, ...].
Variable project_sequence(const Variable& x, const Variable& weight, const Ranges& positions);

// y[n] = a[n modulo its count] b[n modulo its count]^T, or without transposing b. a: [count, m, k];
// b: [count, k or n, n or k]. Requires that one count divides the other.
Variable batched_matmul(const Variable& a, const Variable& b, bool transpose_b = false);

// Returns x with padding rows set to zero. x: [batch, time, ...], rows at `positions`; length and
// padding as in kernels/rows.h, for the full sequence. Returns x if both are undefined.
Variable mask_padding(const Variable& x,
                      const Ranges& positions,
                      const Tensor& length,
                      const Tensor& padding = {});

// Returns rows [begin, begin + count) of each batch row. x: [batch, time, ...].
Variable slice_sequence(const Variable& x, std::int64_t begin, std::int64_t count);

// Converts between [batch, time, heads, dim] and [batch * heads, time, dim].
Variable to_heads_first(const Variable& x);
Variable to_heads_inner(const Variable& x, std::int64_t heads);

}  // namespace longspan
