// Shared by kernel tests: converts doubles to tensors of any floating dtype and back.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "tests/support/sanitizers.h"
#include "tests/support/test_device.h"

namespace longspan::testing {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;
using FloatingTypes = ::testing::Types<double, float, BFloat16, Float16>;

inline Cpu cpu() { return Cpu{&cpu_device().state()}; }

// The backend of the tests and the device of their tensors. Kernel tests are compiled once per
// backend. Tests that call kernels through `on` use the device of the environment. The device is
// never destroyed, because a process may unload GPU libraries before it.
#ifdef LONGSPAN_CUDA_KERNELS
inline const Device& backend_device() {
  static const auto* const device = new Device(visible_gpu());
  return *device;
}
inline Cuda backend(const Device& device = backend_device()) { return device.state().cuda(); }
#else
inline const Device& backend_device() {
  static const auto* const device = new Device(tests_run_on_gpu() ? visible_gpu() : cpu_device());
  return *device;
}
inline Cpu backend(const Device& device = backend_device()) { return {&device.state()}; }
#endif
#ifdef LONGSPAN_EMULATED_CUDA
inline constexpr bool emulated = true;
#else
inline constexpr bool emulated = false;
#endif
// Emulated kernels use fewer and smaller cases. Sanitizers do too, except with launch/test --all.
inline const bool slow = emulated || (sanitized && std::getenv("LONGSPAN_ALL") == nullptr);

// A separate device, for tests that count its memory and read it often. Emulated kernels use host
// memory.
inline Device fresh_device() {
#if defined(LONGSPAN_CUDA_KERNELS) && !defined(LONGSPAN_EMULATED_CUDA)
  return visible_gpu();
#else
  return Device::cpu();
#endif
}

// The double rounded to T.
template <typename T>
double rounded(double value) {
  return static_cast<double>(static_cast<Accumulator<T>>(T(static_cast<Accumulator<T>>(value))));
}

template <typename T>
Tensor tensor_of(const Values& values, const Shape& shape) {
  std::vector<T> elements;
  for (const double value : values) elements.push_back(T(static_cast<Accumulator<T>>(value)));
  return Tensor::from<T>(elements, shape, backend_device());
}
inline Tensor ids_of(const std::vector<std::int64_t>& ids) {
  return Tensor::from<std::int64_t>(ids, {std::ssize(ids)}, backend_device());
}

inline Values values_of(const Tensor& tensor) {
  Values values;
  const Tensor here = tensor.to_host();
  with_floating_type(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const T element : here.span<T>())
      values.push_back(static_cast<double>(static_cast<Accumulator<T>>(element)));
  });
  return values;
}

// Normal numbers, rounded to T.
template <typename T>
Values normal_values(std::int64_t count, std::uint64_t seed, double deviation = 1) {
  Values values;
  const Random random(seed);
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(rounded<T>(deviation * random.normal_at(static_cast<std::uint64_t>(i))));
  return values;
}

// A tensor full of NaN: the outputs of a kernel must not depend on it.
template <typename T>
Tensor poisoned(const Shape& shape) {
  return tensor_of<T>(Values(static_cast<std::size_t>(shape.elements()), nan), shape);
}

// The rounding error of one result in T, with a margin for sums in its accumulator.
template <typename T>
constexpr double tolerance() {
  switch (DTypeOf<T>::value) {
    case DType::f64:
      return 1e-13;
    case DType::f32:
      return 2e-6;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0x1p-10;
  }
}

// |found - expected| <= tolerance * (|expected| + size); equal where not finite.
inline void expect_close(const Values& found,
                         const Values& expected,
                         double relative,
                         double size = 1) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << "element " << i << " is " << found[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(found[i], expected[i]) << "element " << i;
    } else {
      EXPECT_NEAR(found[i], expected[i], relative * (std::abs(expected[i]) + size))
          << "element " << i;
    }
  }
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor left = a.to_host(), right = b.to_host();
  return a.byte_size() == b.byte_size() &&
         std::memcmp(left.bytes(), right.bytes(), a.byte_size()) == 0;
}

// Runs f with a number of threads, then restores the previous number.
template <typename F>
auto with_threads(int threads, const F& f) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  auto result = f();
  omp_set_num_threads(before);
  return result;
}

}  // namespace longspan::testing
