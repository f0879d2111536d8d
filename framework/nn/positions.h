// Absolute positions: sinusoidal encodings and learned tables.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"
#include "framework/kernels/rotary.h"

namespace longspan {

// Returns the encodings of `positions` in order (kernels/rotary.h), [total_count(positions), width]
// in `dtype`.
Tensor sinusoids(SinusoidLayout layout,
                 const Ranges& positions,
                 std::int64_t width,
                 std::int64_t clamp,
                 DType dtype,
                 const Device& device);
// For positions first ... first + count - 1.
inline Tensor sinusoids(SinusoidLayout layout,
                        std::int64_t first,
                        std::int64_t count,
                        std::int64_t width,
                        std::int64_t clamp,
                        DType dtype,
                        const Device& device) {
  return sinusoids(layout, Ranges{{first, first + count}}, width, clamp, dtype, device);
}

// Returns the rows of a table [positions, width] in order: [total_count(rows), width].
Variable table_rows(const Variable& table, const Ranges& rows);

}  // namespace longspan
