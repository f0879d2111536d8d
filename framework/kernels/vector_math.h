// Branch-free elementary functions for loops that the compiler vectorizes (`#pragma omp simd`).
// Always inlined, because a call would prevent vectorization. The float versions are polynomials
// and series; the double versions call the C library and exist for tests.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "framework/core/host_device.h"

namespace longspan {

// Returns e^x within 2 ulp. Below -87 the result is 0 (never subnormal), above 88.8 infinity. NaN
// stays NaN.
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline float fast_exp(float x) {
  x = x < -87.2f ? -87.2f : x;
  x = x > 89.0f ? 89.0f : x;
  // x = n ln 2 + r with |r| <= ln 2 / 2: the magic number's last bit is worth 1, so that adding
  // it rounds, and leaves n in the low bits.
  constexpr float magic = 0x1.8p23f;
  const float shifted = x * 1.44269504f + magic;
  const float n = shifted - magic;
  const float r = (x - n * 0x1.62e4p-1f) - n * 1.42860677e-6f;
  float q = 0.00138142263f;
  q = q * r + 0.008368898933f;
  q = q * r + 0.04166840565f;
  q = q * r + 0.1666651913f;
  q = q * r + 0.4999999335f;
  const float power = (q * r * r + r) + 1.0f;
  // 2^(n-1), doubled afterwards, so that n = 128 does not overflow too early and n = -126 gives 0.
  const auto exponent = (std::bit_cast<std::uint32_t>(shifted) + 126u) << 23;
  return power * std::bit_cast<float>(exponent) * 2.0f;
}
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline double fast_exp(double x) { return std::exp(x); }

// Returns 1 / (1 + e^-x), in (0, 1): never so small that its reciprocal overflows.
template <typename T>
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline T sigmoid(T x) {
  return T{1} / (T{1} + fast_exp(x < T{-80} ? T{80} : -x));
}

// Returns ln(1 + e^x) within a few ulp, without overflow; 0 below -87.
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline float softplus(float x) {
  // ln(1 + e) = 2 artanh(s) with s = e / (2 + e) <= 1/3, so the first omitted term is below 2^-24
  // of the sum.
  const float e = fast_exp(x > 0.0f ? -x : x);
  const float s = e / (2.0f + e);
  const float square = s * s;
  float p = 1.0f / 15;
  p = p * square + 1.0f / 13;
  p = p * square + 1.0f / 11;
  p = p * square + 1.0f / 9;
  p = p * square + 1.0f / 7;
  p = p * square + 1.0f / 5;
  p = p * square + 1.0f / 3;
  return (x > 0.0f ? x : 0.0f) + 2.0f * (s + s * square * p);
}
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline double softplus(double x) {
  return (x > 0 ? x : 0) + std::log1p(std::exp(x > 0 ? -x : x));
}

// Returns tanh x within a few ulp. Uses a series where 1 - 2 / (e^2x + 1) would cancel.
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline float tanh(float x) {
  const float distance = std::abs(x);
  const float square = x * x;
  float p = 0.003592128037f;
  p = p * square - 0.008863235530f;
  p = p * square + 0.02186948853f;
  p = p * square - 0.05396825397f;
  p = p * square + 0.1333333333f;
  p = p * square - 0.3333333333f;
  const float near = distance + distance * square * p;
  const float far = 1.0f - 2.0f / (fast_exp(2.0f * distance) + 1.0f);
  const float size = distance < 0.4f ? near : far;
  return x < 0.0f ? -size : size;
}
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline double tanh(double x) { return std::tanh(x); }

// The standard normal distribution: P(X <= x) and the density at x.
template <typename T>
struct NormalDistribution {
  T below;
  T density;
};

// `below` has an absolute error of at most 2e-7. The tail has a relative error of a few ulp times 1
// + x^2.
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline NormalDistribution<float> normal_distribution(
    float x) {
  const float distance = std::abs(x);
  const float bell = fast_exp(-0.5f * x * x);
  // erfc(a) = e^(-a^2) t P(t), t = 1 / (1 + 0.4 a), a = |x| / sqrt(2), fitted for a <= 10.
  const float t = 1.0f / (1.0f + 0.282842712f * distance);
  float p = -0.02959396918f;
  p = p * t + 0.1980112766f;
  p = p * t - 0.4988070861f;
  p = p * t + 0.5474297755f;
  p = p * t - 0.2843621581f;
  p = p * t + 0.2720639061f;
  p = p * t + 0.1296803712f;
  p = p * t + 0.2149189436f;
  p = p * t + 0.2249520397f;
  p = p * t + 0.2257069084f;
  const float tail = 0.5f * bell * t * p;
  return {x < 0.0f ? tail : 1.0f - tail, 0.398942280f * bell};
}
[[gnu::always_inline]] LONGSPAN_HOST_DEVICE inline NormalDistribution<double> normal_distribution(
    double x) {
  return {0.5 * std::erfc(-x * 0.70710678118654752440),
          0.39894228040143267794 * std::exp(-0.5 * x * x)};
}

}  // namespace longspan
