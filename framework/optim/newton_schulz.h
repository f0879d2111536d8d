// The orthogonal matrix that is near another one.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// matrix: [rows, columns] of f32 or f64. Its singular values, divided by its norm, are brought near
// 1 (0.7 to 1.2 after 5 iterations), those that are 0 stay, by the iteration of Newton and Schulz
// of fifth degree
//   X <- 3.4445 X - 4.7750 (X X^T) X + 2.0315 (X X^T)^2 X
// whose coefficients are those of Jordan et al. 2024.
void orthogonalise(const Tensor& matrix, std::int64_t iterations);

}  // namespace longspan
