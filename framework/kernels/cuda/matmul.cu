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

// The bias as the library adds it: of the result's dtype, to which a wider one is rounded, as all
// weights that it multiplies are. To add it afterwards would read and write the whole result again,
// which costs a layer's products several hundredths of their time.
Tensor bias_of(Cuda cuda, const Matmul& matmul) {
  const Tensor& bias = matmul.bias;
  if (!bias.defined() || bias.dtype() == matmul.c.dtype()) return bias;
  const Tensor rounded =
      Tensor::empty(bias.shape(), matmul.c.dtype(), matmul.c.device(), MemoryTag::workspace);
  scale(cuda, 1.0, bias, rounded);
  return rounded;
}

// The product and its bias; without that in float64, where the library has none.
Product product_of(const Matmul& matmul, const MatmulExtents& extents, const Tensor& bias) {
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
          .bias = bias.defined() && bias.dtype() != DType::f64 ? bias.bytes() : nullptr,
          .c = matmul.c.bytes()};
}

// The same with the activation or its derivative; without an epilogue where the library has none.
// Its relu is not wanted: it turns NaN into 0, which would hide it. Its GELU is the form with tanh.
Product with_epilogue(Cuda cuda, const Matmul& matmul, Product product) {
  const bool narrow = product.dtype == DType::bf16 || product.dtype == DType::f16;
  if (matmul.activation != Activation::gelu_tanh || !matmul.before.defined() || !narrow ||
      product.c_dtype != product.dtype)
    return product;
  Product fused = product;
  fused.epilogue = matmul.derivative ? Epilogue::gelu_derivative : Epilogue::gelu;
  fused.before = matmul.before.bytes();
  return fuses(cuda, fused) ? fused : product;
}

}  // namespace

void matmul(Cuda cuda, const Matmul& matmul) {
  const MatmulExtents extents = check(matmul);
  const auto [m, k, n] = extents;
  if (m == 0 || n == 0) return;
  void* const workspace = cuda.state->kept<ProductWorkspace>().of(cuda.state->allocator());
  const Tensor bias = bias_of(cuda, matmul);
  if (cuda.state->dry()) return cuda.state->count_flops(extents.flops());
  const bool keeps = matmul.before.defined() && !matmul.derivative;
  const Tensor& c = keeps ? matmul.before : matmul.c;  // of what comes before the activation
  bool adds_bias = bias.defined();
  if (k > 0) {
    Product product = with_epilogue(cuda, matmul, product_of(matmul, extents, bias));
    const bool fused = product.epilogue != Epilogue::none;
    if (!fused && product.bias != nullptr && !fuses(cuda, product)) product.bias = nullptr;
    if (!fused) product.c = c.bytes();
    product.workspace = workspace;
    multiply(cuda, product);
    if (fused) return;
    adds_bias = adds_bias && product.bias == nullptr;
  } else if (!matmul.accumulate) {
    c.zero();
  }
  if (adds_bias) {
    const Tensor rows = c.reshape({m, 1, n});
    scale_and_add_rows(cuda, 1.0, rows, bias.reshape({1, n}), rows);
  }
  if (matmul.derivative)
    activate_backward(cuda, matmul.activation, matmul.before, matmul.c, matmul.c);
  else if (keeps || matmul.activation != Activation::none)
    activate(cuda, matmul.activation, c, matmul.c);
}

}  // namespace longspan
