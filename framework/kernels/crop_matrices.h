// Leading parts of matrices over positions, with a causal mask.
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// part[n, i, j] = whole[n, begin + i, j], or 0 if causal and j > begin + i. whole: [count,
// positions, columns]; part: [count, rows, fewer columns].
struct MatrixCrop {
  Tensor whole;
  Tensor part;
  std::int64_t begin = 0;
  bool causal = false;
};
// Overwrites the part, in the dtype of the whole.
void crop_matrices(Cpu, const MatrixCrop&);
void crop_matrices(Cuda, const MatrixCrop&);
// Adds the part to the whole, of any floating dtype, except its masked elements: the gradient.
void add_cropped(Cpu, const MatrixCrop&);
void add_cropped(Cuda, const MatrixCrop&);

// Throws Failure if the shapes do not match the comments above.
void check(const MatrixCrop&);

}  // namespace longspan
