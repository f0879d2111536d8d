// Random features, whose products are on average a kernel of what they were made of: the softmax's
// (FAVOR+, Choromanski et al. 2021), a ReLU's (the same), a Gaussian's (Rahimi & Recht 2007).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// With u = scale x W^T, of `count` rows of W:
//   softmax: exp(u - |scale x|^2 / 2 - shift) / sqrt(count), the shift a number of each row of x
//   relu: max(u, 0) + floor
//   trigonometric: [sin u, cos u] / sqrt(count), 2 count of them
enum class RandomMap : std::uint8_t { softmax, relu, trigonometric };

struct RandomFeatures {
  RandomMap map = RandomMap::softmax;
  double scale = 1;
  double floor = 1e-3;
  // The shift is the largest exponent of a row, so that its largest feature is 1 / sqrt(count);
  // with this it is the largest u, as in lucidrains' implementation.
  bool shifts_by_projection = false;
  // Of the softmax's features the backward pass receives the gradients of their logarithms, which
  // FeatureMap::exponential (attention/linear_attention.h) gives: they are small where those of the
  // features themselves are about the inverse of a feature, which f16 cannot hold.
  bool log_gradients = false;

  std::int64_t features(std::int64_t count) const {
    return map == RandomMap::trigonometric ? 2 * count : count;
  }
};

// x: [rows, dim]; product: [rows, count], accumulator dtype, x W^T. out: [rows, features], x's
// dtype, and, for the softmax, shift: [rows], accumulator dtype, are written.
struct RandomFeaturesCall {
  RandomFeatures map;
  Tensor x;
  Tensor product;
  Tensor out;
  Tensor shift = {};
};
void random_features(Cpu, const RandomFeaturesCall&);
void random_features(Cuda, const RandomFeaturesCall&);

// The shift is a constant. dproduct: [rows, count], x's dtype, is written: the gradient with
// respect to x W^T; and dx: [rows, dim], what reaches x beside it.
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

// Throw Failure where shapes or dtypes are not as said above.
void check(const RandomFeaturesCall&);
void check(const RandomFeaturesGradient&);

}  // namespace longspan
