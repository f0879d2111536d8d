// Projection matrices of random features.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "framework/kernels/random_features.h"
#include "framework/options/options.h"

namespace longspan {

// Returns [count, dim]: blocks of dim orthogonal rows, the last one truncated. Each block is the
// transposed Q of a Gaussian matrix [dim, dim] = Q R. R has a positive diagonal, so that directions
// are uniform. gaussian: these matrices. lengths: Gaussian rows [count, dim], whose norms become
// the norms of the result, as for a Gaussian matrix. Empty: all norms are sqrt(dim).
std::vector<double> orthogonal_rows(std::span<const double> gaussian,
                                    std::span<const double> lengths,
                                    std::int64_t count,
                                    std::int64_t dim);

// Draws orthogonal rows, or independent Gaussian rows: [count, dim] in `dtype`. Functions of
// `random` alone.
Tensor orthogonal_projection(
    const Random& random, std::int64_t count, std::int64_t dim, DType dtype, const Device& device);
Tensor gaussian_projection(
    const Random& random, std::int64_t count, std::int64_t dim, DType dtype, const Device& device);

// Options of the random feature attention types.
struct RandomFeatureOptions {
  std::optional<std::int64_t> count = {};  // none: dim ln(dim), for rfa dim
  std::int64_t seed = 0;
  RandomMap kernel = RandomMap::softmax;  // only for performer
  std::int64_t redraw = 1000;             // 0: never
  std::int64_t draws = 16;
  bool gate = true;
};

// Declares the section model.attention.random_features.
void declare(OptionTable& table, RandomFeatureOptions& options);

}  // namespace longspan
