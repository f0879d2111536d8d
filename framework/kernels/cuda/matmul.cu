#include <mutex>
#include <optional>

#include "framework/kernels/cuda/cublaslt_gemm.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

// The workspace shared by a device's products, which run sequentially.
class ProductWorkspace {
 public:
  void* of(Allocator& allocator) {
    const std::lock_guard lock(mutex_);
    if (!block_) block_.emplace(allocator, product_workspace_bytes, MemoryTag::workspace);
    return block_->begin();
  }

 private:
  std::mutex mutex_;
  std::optional<ScopedAllocation> block_;
};

bool is_narrow(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

// The product, with its bias if the library can add it: in the result's dtype, and not f64.
GemmArguments product_of(Cuda cuda, const Matmul& matmul, const MatmulExtents& extents) {
  const Tensor& bias = matmul.bias;
  const bool adds = bias.defined() && bias.dtype() == matmul.c.dtype();
  return {.m = extents.m,
          .k = extents.k,
          .n = extents.n,
          .transpose_a = matmul.transpose_a,
          .transpose_b = matmul.transpose_b,
          .accumulate = matmul.accumulate,
          .dtype = matmul.a.dtype(),
          .c_dtype = matmul.c.dtype(),
          .a = matmul.a.bytes(),
          .b = matmul.b.bytes(),
          .bias = adds && bias.dtype() != DType::f64 ? bias.bytes() : nullptr,
          .c = matmul.c.bytes(),
          .workspace = cuda.state->get_or_create<ProductWorkspace>().of(cuda.state->allocator())};
}

// Computes the product with the activation or its derivative in one kernel, if the library has one.
// Excludes its relu, which turns NaN into 0 and would hide it. Its GELU is the tanh approximation.
bool multiplied_with_activation(Cuda cuda, const Matmul& matmul, GemmArguments product) {
  const bool leaves_bias = matmul.bias.defined() && product.bias == nullptr;
  if (matmul.activation != Activation::gelu_tanh || !matmul.before.defined() || leaves_bias ||
      !is_narrow(product.dtype) || product.c_dtype != product.dtype)
    return false;
  product.epilogue = matmul.derivative ? Epilogue::gelu_derivative : Epilogue::gelu;
  product.before = matmul.before.bytes();
  return multiply(cuda, product);
}

// Computes the product and the sums of a, which it reads anyway, in one kernel, if the library has
// one.
bool multiplied_with_sums(Cuda cuda, const Matmul& matmul, GemmArguments product) {
  if (!is_narrow(product.dtype) || product.c_dtype != DType::f32) return false;
  if (product.m == 0 || product.k == 0 || product.n == 0) return false;
  const Tensor sums =
      Tensor::empty({product.m}, DType::f32, matmul.c.device(), MemoryTag::workspace);
  product.epilogue = Epilogue::sums_of_a;
  product.a_sums = sums.bytes();
  if (cuda.state->is_meta() || !multiply(cuda, product)) return false;
  accumulate(cuda, 1.0, sums, matmul.a_sums);
  return true;
}

// Computes everything except the sums of a.
void multiply_alone(Cuda cuda, const Matmul& matmul, GemmArguments product) {
  const bool keeps = matmul.before.defined() && !matmul.derivative;
  const Tensor& c = keeps ? matmul.before : matmul.c;  // receives the pre-activations
  bool adds_bias = matmul.bias.defined();
  if (product.k > 0) {
    if (multiplied_with_activation(cuda, matmul, product)) return;
    product.c = c.bytes();
    if (product.bias != nullptr && multiply(cuda, product)) {
      adds_bias = false;
    } else {
      product.bias = nullptr;
      if (!multiply(cuda, product)) reference_gemm(cuda, product);
    }
  } else if (!matmul.accumulate) {
    c.zero();
  }
  if (adds_bias) {
    const Tensor rows = c.reshape({product.m, 1, product.n});
    scale_and_add_rows(cuda, 1.0, rows, matmul.bias.reshape({1, product.n}), rows);
  }
  if (matmul.derivative)
    activate_backward(cuda, matmul.activation, matmul.before, matmul.c, matmul.c);
  else if (keeps || matmul.activation != Activation::none)
    activate(cuda, matmul.activation, c, matmul.c);
}

}  // namespace

void matmul(Cuda cuda, const Matmul& matmul) {
  const MatmulExtents extents = check(matmul);
  const GemmArguments product = product_of(cuda, matmul, extents);
  if (matmul.a_sums.defined()) {
    if (multiplied_with_sums(cuda, matmul, product)) return;
    add_column_sums(cuda, matmul.a, matmul.a_sums);
  }
  if (cuda.state->is_meta()) return cuda.state->count_flops(extents.flops());
  if (extents.m > 0 && extents.n > 0) multiply_alone(cuda, matmul, product);
}

}  // namespace longspan
