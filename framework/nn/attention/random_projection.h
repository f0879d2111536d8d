// The matrices by which random features project.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/random.h"
#include "framework/core/tensor.h"

namespace longspan {

// [count, dim]: blocks of dim rows that are orthogonal to each other, the last one cut off. Each
// block is the transposed Q of a Gaussian matrix [dim, dim] = Q R with a positive diagonal of R, so
// that its directions are uniform. gaussian: those matrices. lengths: Gaussian rows [count, dim];
// row i becomes as long as row i of them, as rows of a Gaussian matrix are; empty: sqrt(dim).
std::vector<double> orthogonal_rows(std::span<const double> gaussian,
                                    std::span<const double> lengths,
                                    std::int64_t count,
                                    std::int64_t dim);

// The same drawn, and rows that know nothing of each other; [count, dim] in `dtype`. Functions of
// `random` alone.
Tensor orthogonal_projection(
    const Random& random, std::int64_t count, std::int64_t dim, DType dtype, const Device& device);
Tensor gaussian_projection(
    const Random& random, std::int64_t count, std::int64_t dim, DType dtype, const Device& device);

}  // namespace longspan
