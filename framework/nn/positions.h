// Absolute positions: sinusoidal encodings and tables.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"
#include "framework/kernels/sinusoids.h"

namespace longspan {

// The encodings of the positions, one after another (kernels/sinusoids.h): [count_of(positions),
// width] of `dtype`.
Tensor sinusoids(SinusoidLayout layout,
                 const Ranges& positions,
                 std::int64_t width,
                 std::int64_t clamp,
                 DType dtype,
                 const Device& device);
// Of positions first, first + 1, ...
inline Tensor sinusoids(SinusoidLayout layout,
                        std::int64_t first,
                        std::int64_t count,
                        std::int64_t width,
                        std::int64_t clamp,
                        DType dtype,
                        const Device& device) {
  return sinusoids(layout, Ranges{{first, first + count}}, width, clamp, dtype, device);
}

// The rows of a table [positions, width], one after another: [count_of(rows), width].
Variable table_rows(const Variable& table, const Ranges& rows);

}  // namespace longspan
