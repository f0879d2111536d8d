// Orthogonalizes a matrix by Newton-Schulz iteration.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Orthogonalizes matrix [rows, columns], f32 or f64, in place. Its singular values, divided by its
// norm, approach 1 (0.7 to 1.2 after 5 iterations); zeros remain. The fifth-degree iteration is
//   X <- 3.4445 X - 4.7750 (X X^T) X + 2.0315 (X X^T)^2 X
// with the coefficients of Jordan et al. 2024.
void orthogonalize(const Tensor& matrix, std::int64_t iterations);

}  // namespace longspan
