// Random features whose inner products approximate a kernel: the softmax kernel (FAVOR+,
// Choromanski et al. 2021), a ReLU kernel (ibid.) or a Gaussian kernel (Rahimi & Recht 2007).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// With u = scale x W^T, where W has `count` rows:
//   softmax: exp(u - |scale x|^2 / 2 - shift) / sqrt(count), with one shift for each row of x
//   relu: max(u, 0) + floor
//   trigonometric: [sin u, cos u] / sqrt(count), 2 count features
enum class RandomMap : std::uint8_t { softmax, relu, trigonometric };

struct RandomFeatures {
  RandomMap map = RandomMap::softmax;
  double scale = 1;
  double floor = 1e-3;
  // False: the shift is the largest exponent of a row, so that its largest feature is 1 /
  // sqrt(count). True: it is the largest u, as in lucidrains' implementation.
  bool shifts_by_projection = false;
  // The backward pass of the softmax features receives gradients of their logarithms
  // (FeatureMap::exponential in attention/linear_attention.h). Gradients of the features themselves
  // are about the inverse of a feature, which overflows f16.
  bool log_gradients = false;

  std::int64_t features(std::int64_t count) const {
    return map == RandomMap::trigonometric ? 2 * count : count;
  }
};

// x: [rows, dim]; product: [rows, count], accumulator dtype, x W^T. Overwrites out: [rows,
// features], x's dtype, and, for softmax, shift: [rows], accumulator dtype.
struct RandomFeaturesCall {
  RandomFeatures map;
  Tensor x;
  Tensor product;
  Tensor out;
  Tensor shift = {};
};
void random_features(Cpu, const RandomFeaturesCall&);
void random_features(Cuda, const RandomFeaturesCall&);

// The shift is treated as a constant. Overwrites dproduct: [rows, count], x's dtype, the gradient
// with respect to x W^T. Overwrites dx: [rows, dim], the part of x's gradient that does not pass
// through the product.
struct RandomFeaturesGradient {
  RandomFeatures map;
  Tensor x;
  Tensor out;
  Tensor dout;
  Tensor dproduct;
  Tensor dx;
};
void random_features_backward(Cpu, const RandomFeaturesGradient&);
void random_features_backward(Cuda, const RandomFeaturesGradient&);

// Throws Failure if shapes or dtypes do not match the comments above.
void check(const RandomFeaturesCall&);
void check(const RandomFeaturesGradient&);

}  // namespace longspan
