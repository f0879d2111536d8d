// Library matrix product, implemented with cuBLASLt (cublaslt_gemm.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/core/device.h"
#include "framework/core/dtype.h"

namespace longspan {

// Workspace size of library products, as the cuBLAS documentation recommends for Hopper.
inline constexpr std::size_t product_workspace_bytes = std::size_t{32} << 20;

// Operation fused with a product. GELU is the tanh approximation; `before`: [m, n], c's dtype.
enum class Epilogue : std::uint8_t {
  none,
  gelu,             // c = gelu(a b + bias), before = a b + bias
  gelu_derivative,  // c = (a b) * gelu'(before)
  sums_of_a,        // a_sums = the sums of a over k; requires a transposed
};

// c = a b + bias, or c += a b; row-major, no extent is 0. a: [m, k], b: [k, n], or transposed; c:
// [m, n]. bias: [n] in c's dtype, which is not f64, or nullptr.
struct GemmArguments {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  DType dtype = DType::f32;    // of a and b
  DType c_dtype = DType::f32;  // dtype or its accumulator dtype
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* c = nullptr;
  Epilogue epilogue = Epilogue::none;
  void* before = nullptr;
  void* a_sums = nullptr;     // [m], of c's dtype
  void* workspace = nullptr;  // product_workspace_bytes
};
// Returns false, without effect, if the library has no algorithm for it. Also returns false if its
// algorithms for this bias and epilogue are too slow or inaccurate.
[[nodiscard]] bool multiply(Cuda, const GemmArguments&);

// The product without an epilogue and without the library, which has no algorithm for some odd
// shapes. Slow: one thread for each element.
void reference_gemm(Cuda, const GemmArguments&);

}  // namespace longspan
