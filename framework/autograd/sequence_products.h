// Products along the time of a sequence, for attention whose keys are mixtures of tokens.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"

namespace longspan {

// y[n, j, :] = sum over the rows t of x of weight[n modulo sets, position of t, j] x[n, t, :]. x:
// [count, time, ...], whose rows stand at `positions` of a longer sequence; weight: [sets,
// positions, columns]; result: [count, columns, ...].
Variable project_sequence(const Variable& x, const Variable& weight, const Ranges& positions);

// y[n] = a[n modulo its count] b[n modulo its count]^T, or without the transposition. a: [count, m,
// k]; b: [count, k or n, n or k]; one count divides the other.
Variable batched_matmul(const Variable& a, const Variable& b, bool transpose_b = false);

// x with the rows of padding set to zero. x: [batch, time, ...], whose rows stand at `positions`;
// length and padding as in kernels/mask_padding.h, of the whole sequence. Where both are undefined
// it is x itself.
Variable mask_padding(const Variable& x,
                      const Ranges& positions,
                      const Tensor& length,
                      const Tensor& padding = {});

// Rows [begin, begin + count) of each batch row. x: [batch, time, ...].
Variable slice_sequence(const Variable& x, std::int64_t begin, std::int64_t count);

// [batch, time, heads, dim] as [batch * heads, time, dim], and the way back.
Variable to_heads_first(const Variable& x);
Variable to_heads_inner(const Variable& x, std::int64_t heads);

}  // namespace longspan
