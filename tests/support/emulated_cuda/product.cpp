// Matrix products on the emulated device.
#include "framework/kernels/cuda/product.h"

#include <cuda_runtime.h>

#include "framework/kernels/element.h"
#include "framework/kernels/shared/activation.h"

namespace longspan {
namespace {

template <typename T, typename C>
void multiply_as(const Product& product) {
  using A = Accumulator<T>;
  const T* const a = static_cast<const T*>(product.a);
  const T* const b = static_cast<const T*>(product.b);
  const C* const bias = static_cast<const C*>(product.bias);
  C* const c = static_cast<C*>(product.c);
  C* const before = static_cast<C*>(product.before);
  if (product.epilogue == Epilogue::sums_of_a)
    for (std::int64_t i = 0; i < product.m; ++i) {
      A sum = 0;
      for (std::int64_t p = 0; p < product.k; ++p) sum += wide(a[p * product.m + i]);
      put(static_cast<C*>(product.a_sums)[i], sum);
    }
  for (std::int64_t i = 0; i < product.m; ++i)
    for (std::int64_t j = 0; j < product.n; ++j) {
      A sum = 0;
      for (std::int64_t p = 0; p < product.k; ++p)
        sum += wide(a[product.transpose_a ? p * product.m + i : i * product.k + p]) *
               wide(b[product.transpose_b ? j * product.k + p : p * product.n + j]);
      const std::int64_t at = i * product.n + j;
      C& element = c[at];
      if (bias != nullptr) sum += static_cast<A>(wide(bias[j]));
      if (product.accumulate) sum += static_cast<A>(wide(element));
      if (product.epilogue == Epilogue::gelu) {
        put(before[at], sum);
        sum = value_of<Activation::gelu_tanh>(sum);
      }
      if (product.epilogue == Epilogue::gelu_derivative)
        sum *= slope_of<Activation::gelu_tanh>(static_cast<A>(wide(before[at])));
      put(element, sum);
    }
}

}  // namespace

bool fuses(Cuda, const Product& product) {
  return product.epilogue == Epilogue::none || product.n % 8 == 0;
}

void multiply(Cuda cuda, const Product& product) {
  emulated_cuda::queue(cuda.stream, [product] {
    const emulated_cuda::Access access;
    with_floating_type(product.dtype, [&]<typename T>(TypeTag<T>) {
      if (product.c_dtype == product.dtype)
        multiply_as<T, T>(product);
      else
        multiply_as<T, Accumulator<T>>(product);
    });
  });
}

}  // namespace longspan
