// The matrix product of a library. Its body is cuBLASLt's (cublaslt_gemm.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/core/device.h"
#include "framework/core/dtype.h"

namespace longspan {

// Memory that the library may use for a product: as much as its own documentation advises on
// Hopper.
inline constexpr std::size_t product_workspace_bytes = std::size_t{32} << 20;

// What is made beside a product. GELU is that with tanh; `before`: [m, n], c's dtype.
enum class Epilogue : std::uint8_t {
  none,
  gelu,             // c = gelu(a b + bias), before = a b + bias
  gelu_derivative,  // c = (a b) * gelu'(before)
  sums_of_a,        // a_sums = the sums of a over k; a transposed
};

// c = a b + bias, or c += a b; rows after rows, none of the extents 0. a: [m, k], b: [k, n], or
// transposed; c: [m, n]; a bias [n] is of c's dtype, which is not f64, or nullptr.
struct GemmArguments {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  DType dtype = DType::f32;    // of a and b
  DType c_dtype = DType::f32;  // that or its accumulator's
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* c = nullptr;
  Epilogue epilogue = Epilogue::none;
  void* before = nullptr;
  void* a_sums = nullptr;     // [m], of c's dtype
  void* workspace = nullptr;  // product_workspace_bytes
};
// False where the library has no algorithm for it, or with its bias and epilogue none that is worth
// it or right: then nothing was done.
[[nodiscard]] bool multiply(Cuda, const GemmArguments&);

// The same without an epilogue and without the library, which has no algorithm for some odd shapes:
// a thread an element, slowly.
void reference_gemm(Cuda, const GemmArguments&);

}  // namespace longspan
