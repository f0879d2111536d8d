#include <mutex>
#include <optional>

#include "framework/kernels/cuda/product.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

// The one workspace of a device's products, which are made one after another.
class ProductWorkspace {
 public:
  void* of(Allocator& allocator) {
    const std::lock_guard lock(mutex_);
    if (!block_) block_.emplace(allocator, product_workspace_bytes, MemoryTag::workspace);
    return block_->begin();
  }

 private:
  std::mutex mutex_;
  std::optional<HeldBlock> block_;
};

bool is_narrow(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

// The product and its bias where the library may add it: of the result's dtype, and not float64.
Product product_of(Cuda cuda, const Matmul& matmul, const MatmulExtents& extents) {
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
          .workspace = cuda.state->kept<ProductWorkspace>().of(cuda.state->allocator())};
}

// The same with the activation or its derivative; without an epilogue where the library has none.
// Its relu is not wanted: it turns NaN into 0, which would hide it. Its GELU is the form with tanh.
Product with_epilogue(Cuda cuda, const Matmul& matmul, Product product) {
  const bool leaves_bias = matmul.bias.defined() && product.bias == nullptr;
  if (matmul.activation != Activation::gelu_tanh || !matmul.before.defined() || leaves_bias ||
      !is_narrow(product.dtype) || product.c_dtype != product.dtype)
    return product;
  Product fused = product;
  fused.epilogue = matmul.derivative ? Epilogue::gelu_derivative : Epilogue::gelu;
  fused.before = matmul.before.bytes();
  return fuses(cuda, fused) ? fused : product;
}

// Makes the product and the sums of a, which it reads anyway, in one kernel, if the library has
// one.
bool multiplied_with_sums(Cuda cuda, const Matmul& matmul, Product product) {
  if (!is_narrow(product.dtype) || product.c_dtype != DType::f32) return false;
  if (product.m == 0 || product.k == 0 || product.n == 0) return false;
  const Tensor sums =
      Tensor::empty({product.m}, DType::f32, matmul.c.device(), MemoryTag::workspace);
  product.epilogue = Epilogue::sums_of_a;
  product.a_sums = sums.bytes();
  if (cuda.state->dry() || !fuses(cuda, product)) return false;
  multiply(cuda, product);
  accumulate(cuda, 1.0, sums, matmul.a_sums);
  return true;
}

// Without the sums of a.
void multiply_alone(Cuda cuda, const Matmul& matmul, Product product) {
  const bool keeps = matmul.before.defined() && !matmul.derivative;
  const Tensor& c = keeps ? matmul.before : matmul.c;  // of what comes before the activation
  bool adds_bias = matmul.bias.defined();
  if (product.k > 0) {
    product = with_epilogue(cuda, matmul, product);
    const bool fused = product.epilogue != Epilogue::none;
    if (!fused && product.bias != nullptr && !fuses(cuda, product)) product.bias = nullptr;
    if (!fused) product.c = c.bytes();
    multiply(cuda, product);
    if (fused) return;
    adds_bias = adds_bias && product.bias == nullptr;
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
  const Product product = product_of(cuda, matmul, extents);
  if (matmul.a_sums.defined()) {
    if (multiplied_with_sums(cuda, matmul, product)) return;
    add_column_sums(cuda, matmul.a, matmul.a_sums);
  }
  if (cuda.state->dry()) return cuda.state->count_flops(extents.flops());
  if (extents.m > 0 && extents.n > 0) multiply_alone(cuda, matmul, product);
}

}  // namespace longspan
