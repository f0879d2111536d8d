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

}  // namespace

void matmul(Cuda cuda, const Matmul& matmul) {
  const MatmulExtents extents = check(matmul);
  const auto [m, k, n] = extents;
  if (m == 0 || n == 0) return;
  const bool has_bias = matmul.bias.defined();
  // The library adds a bias of the result's own dtype only: a wider one would be rounded, and that
  // is felt by every row.
  const bool fuses_bias = has_bias && k > 0 && matmul.bias.dtype() == matmul.c.dtype() &&
                          matmul.c.dtype() != DType::f64;
  if (k > 0)
    multiply(cuda,
             {.m = m,
              .k = k,
              .n = n,
              .transpose_a = matmul.transpose_a,
              .transpose_b = matmul.transpose_b,
              .accumulate = matmul.accumulate,
              .dtype = matmul.a.dtype(),
              .c_dtype = matmul.c.dtype(),
              .a = matmul.a.bytes(),
              .b = matmul.b.bytes(),
              .bias = fuses_bias ? matmul.bias.bytes() : nullptr,
              .c = matmul.c.bytes()});
  else if (!matmul.accumulate)
    matmul.c.zero();
  if (has_bias && !fuses_bias)
    with_both_types(matmul.c, matmul.bias, [&]<typename C, typename B>(TypeTag<C>, TypeTag<B>) {
      for_each_element(cuda, m * n, AddBias<C, B>{n, matmul.bias.data<B>(), matmul.c.data<C>()});
    });
  // Not fused either: the library's relu turns NaN into 0, which would hide it.
  if (matmul.activation != Activation::none) activate(cuda, matmul.activation, matmul.c, matmul.c);
}

}  // namespace longspan
