#include "framework/kernels/cuda/cublaslt_gemm.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/element.h"

namespace longspan {
namespace {

template <typename T, typename C>
struct Element {
  GemmArguments product;

  __device__ Accumulator<T> operator()(std::int64_t i) const {
    const std::int64_t m = product.m, k = product.k, n = product.n;
    const std::int64_t row = i / n, column = i % n;
    const T* const a = static_cast<const T*>(product.a) + (product.transpose_a ? row : row * k);
    const T* const b =
        static_cast<const T*>(product.b) + (product.transpose_b ? column * k : column);
    const std::int64_t a_step = product.transpose_a ? m : 1, b_step = product.transpose_b ? 1 : n;
    Accumulator<T> sum = 0;
    for (std::int64_t l = 0; l < k; ++l) sum += wide(a[l * a_step]) * wide(b[l * b_step]);
    if (product.bias != nullptr) sum += wide(static_cast<const C*>(product.bias)[column]);
    if (product.accumulate) sum += wide(static_cast<const C*>(product.c)[i]);
    return sum;
  }
};

}  // namespace

void reference_gemm(Cuda cuda, const GemmArguments& product) {
  with_floating_type(product.dtype, [&]<typename T>(TypeTag<T>) {
    const auto write = [&]<typename C>(TypeTag<C>) {
      write_elements(
          cuda, product.m * product.n, static_cast<C*>(product.c), Element<T, C>{product});
    };
    if (product.c_dtype == product.dtype)
      write(TypeTag<T>{});
    else
      write(TypeTag<Accumulator<T>>{});
  });
}

}  // namespace longspan
