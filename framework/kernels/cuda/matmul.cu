#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/cuda/product.h"
#include "framework/kernels/element.h"
#include "framework/kernels/matmul.h"

namespace longspan {
namespace {

template <typename C, typename B>
struct AddBias {
  using A = Wider<C, B>;
  std::int64_t width;
  const B* bias;
  C* c;

  __device__ void operator()(std::int64_t i) const {
    put(c[i], static_cast<A>(wide(c[i])) + static_cast<A>(wide(bias[i % width])));
  }
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
  const bool keeps = matmul.before.defined() && !matmul.derivative;
  const Tensor& c = keeps ? matmul.before : matmul.c;  // of what comes before the activation
  bool has_bias = !matmul.bias.defined();
  if (k > 0) {
    Product product = with_epilogue(cuda, matmul, product_of(matmul, extents));
    const bool fused = product.epilogue != Epilogue::none;
    if (!fused) product.c = c.bytes();
    multiply(cuda, product);
    if (fused) return;
    has_bias = has_bias || product.bias != nullptr;
  } else if (!matmul.accumulate) {
    c.zero();
  }
  if (!has_bias)
    with_both_types(c, matmul.bias, [&]<typename C, typename B>(TypeTag<C>, TypeTag<B>) {
      for_each_element(cuda, m * n, AddBias<C, B>{n, matmul.bias.data<B>(), c.data<C>()});
    });
  if (matmul.derivative)
    activate_backward(cuda, matmul.activation, matmul.before, matmul.c, matmul.c);
  else if (keeps || matmul.activation != Activation::none)
    activate(cuda, matmul.activation, c, matmul.c);
}

}  // namespace longspan
