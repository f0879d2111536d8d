// Absolute positions: sinusoidal encodings and tables.
#pragma once

#include <cstdint>

#include "framework/autograd/variable.h"
#include "framework/core/range.h"

namespace longspan {

// The layouts in use are not interchangeable.
enum class SinusoidLayout : std::uint8_t {
  interleaved,      // sin and cos alternate, 10000^(-2m/d) (Vaswani et al. 2017)
  halves,           // first all sin, then all cos, 10000^(-2m/d) (Transformer-XL)
  halves_geometric  // the same with 10000^(-m/(d/2-1)), so that the last is exactly 1/10000
                    // (tensor2tensor, fairseq)
};

// The encodings of the positions, one after another; positions beyond `clamp` count as it (clamp <
// 0: none). An odd last column is 0 where halves are used. [count_of(positions), width] of `dtype`.
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
