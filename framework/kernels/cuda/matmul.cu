#include <algorithm>
#include <mutex>
#include <optional>

#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/product.h"
#include "framework/kernels/element.h"
#include "framework/kernels/matmul.h"
#include "framework/kernels/shared/activation.h"

namespace longspan {
namespace {

// out = activation(product + bias), and before, where it is wanted, that without the activation:
// [rows, width], of which a thread has every `step`th row of one column. As in `write_elements` it
// reads several before it writes the first. out and before may be the product.
template <Activation kind, typename C, typename B>
__global__ void add_bias(std::int64_t rows,
                         std::int64_t width,
                         std::int64_t step,
                         const B* bias,
                         const C* product,
                         C* before,
                         C* out) {
  using A = Wider<C, B>;
  constexpr int together = elements_together<C>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::int64_t row = thread / width;
  const std::int64_t column = thread % width;
  if (row >= step) return;
  const A added = static_cast<A>(wide(bias[column]));
  const auto sum = [&](std::int64_t r) {
    return static_cast<A>(wide(product[r * width + column])) + added;
  };
  const auto write = [&](std::int64_t r, A value) {
    C rounded;
    put(rounded, value);
    if (before != nullptr) before[r * width + column] = rounded;
    put(out[r * width + column], value_of<kind>(wide(rounded)));
  };
  for (; row + (together - 1) * step < rows; row += together * step) {
    A sums[together];
    for (int k = 0; k < together; ++k) sums[k] = sum(row + k * step);
    for (int k = 0; k < together; ++k) write(row + k * step, sums[k]);
  }
  for (; row < rows; row += step) write(row, sum(row));
}

// In place of what the product has written to `c`.
void add_bias(Cuda cuda, const Matmul& matmul, const MatmulExtents& extents, const Tensor& c) {
  constexpr int threads = 256;
  constexpr std::int64_t most_threads = 1024 * threads;
  const auto [m, k, n] = extents;
  const std::int64_t step = std::clamp<std::int64_t>(most_threads / n, 1, m);
  const Grid grid = {.blocks = (step * n + threads - 1) / threads, .threads = threads};
  with_both_types(c, matmul.bias, [&]<typename C, typename B>(TypeTag<C>, TypeTag<B>) {
    with_activation(matmul.activation, [&](auto kind) {
      launch(cuda,
             grid,
             add_bias<kind(), C, B>,
             m,
             n,
             step,
             matmul.bias.data<B>(),
             c.data<C>(),
             matmul.before.defined() ? matmul.before.data<C>() : nullptr,
             matmul.c.data<C>());
    });
  });
}

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

// The product and its bias.
Product product_of(const Matmul& matmul, const MatmulExtents& extents) {
  // The library adds a bias of the result's own dtype only: a wider one would be rounded, and that
  // is felt by every row.
  const bool fuses_bias = matmul.bias.defined() && matmul.bias.dtype() == matmul.c.dtype() &&
                          matmul.c.dtype() != DType::f64;
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
          .bias = fuses_bias ? matmul.bias.bytes() : nullptr,
          .c = matmul.c.bytes()};
}

// The same with the activation or its derivative; without an epilogue where the library has none.
// Its relu is not wanted: it turns NaN into 0, which would hide it. Its GELU is the form with tanh.
Product with_epilogue(Cuda cuda, const Matmul& matmul, Product product) {
  const bool narrow = product.dtype == DType::bf16 || product.dtype == DType::f16;
  const bool has_bias = matmul.bias.defined();
  if (matmul.activation != Activation::gelu_tanh || !matmul.before.defined() || !narrow ||
      product.c_dtype != product.dtype || has_bias != (product.bias != nullptr))
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
  if (cuda.state->dry()) return cuda.state->count_flops(extents.flops());
  const bool keeps = matmul.before.defined() && !matmul.derivative;
  const Tensor& c = keeps ? matmul.before : matmul.c;  // of what comes before the activation
  bool bias_is_added = !matmul.bias.defined();
  if (k > 0) {
    Product product = with_epilogue(cuda, matmul, product_of(matmul, extents));
    product.workspace = workspace;
    const bool fused = product.epilogue != Epilogue::none;
    if (!fused) product.c = c.bytes();
    multiply(cuda, product);
    if (fused) return;
    bias_is_added = bias_is_added || product.bias != nullptr;
  } else if (!matmul.accumulate) {
    c.zero();
  }
  if (!bias_is_added)
    add_bias(cuda, matmul, extents, c);
  else if (matmul.derivative)
    activate_backward(cuda, matmul.activation, matmul.before, matmul.c, matmul.c);
  else if (keeps || matmul.activation != Activation::none)
    activate(cuda, matmul.activation, c, matmul.c);
}

}  // namespace longspan
