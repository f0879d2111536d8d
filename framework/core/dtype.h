// The element types of a tensor.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/host_device.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace longspan {

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8 };

// bfloat16: the upper half of a float32. Rounds to nearest, ties to even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  LONGSPAN_HOST_DEVICE explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    bits = (word & 0x7fffffffu) > 0x7f800000u
               ? static_cast<std::uint16_t>((word >> 16) | 0x0040u)
               : static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  LONGSPAN_HOST_DEVICE explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// IEEE 754 binary16. GCC's _Float16 converts in hardware with F16C and in software elsewhere; nvcc
// has its own type with identical bits.
struct Float16 {
#ifdef __CUDACC__
  __half value;
#else
  _Float16 value = 0;
#endif

  Float16() = default;
  LONGSPAN_HOST_DEVICE explicit Float16(float number)
      : value(static_cast<decltype(value)>(number)) {}
  LONGSPAN_HOST_DEVICE explicit operator float() const { return static_cast<float>(value); }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

// Floating dtypes come first in the enumeration.
constexpr bool is_floating(DType dtype) { return dtype < DType::i64; }

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "u8"};
  return names[static_cast<std::size_t>(dtype)];
}

// Returns the name used in configurations, such as bfloat16.
constexpr std::string_view config_name_of(DType dtype) {
  constexpr std::string_view names[] = {
      "float64", "float32", "bfloat16", "float16", "int64", "int32", "uint8"};
  return names[static_cast<std::size_t>(dtype)];
}

// Returns the dtype of that name. Throws DataError.
DType parse_dtype(std::string_view name);

// The accumulation type for elements of `T`: double for double, float for narrower types.
template <typename T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <typename T>
using Accumulator = typename AccumulatorOf<T>::type;

// Returns the dtype of `Accumulator`.
constexpr DType accumulator_of(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type of a floating dtype: the dispatch of every kernel.
template <typename F>
decltype(auto) with_floating_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::bf16:
      return f(TypeTag<BFloat16>{});
    case DType::f16:
      return f(TypeTag<Float16>{});
    default:
      throw Failure("expected a floating-point dtype, found {}", name_of(dtype));
  }
}

// Drops the sign of a NaN, which is meaningless but printed.
inline double clear_nan_sign(double value) { return std::isnan(value) ? std::abs(value) : value; }

}  // namespace longspan
