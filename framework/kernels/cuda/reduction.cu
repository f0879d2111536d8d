#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/columns.h"
#include "framework/kernels/shared/elementwise.h"

namespace longspan {
namespace {

struct Itself {
  __device__ double operator()(double value) const { return value; }
};
struct Square {
  __device__ double operator()(double value) const { return value * value; }
};

// totals[b] = factor * the sum of term(x) over the elements of block b.
template <typename T, typename Term, typename A>
__global__ void sum_blocks(std::int64_t count,
                           std::int64_t elements_in_block,
                           const T* x,
                           Term term,
                           double factor,
                           A* totals) {
  const std::int64_t first = blockIdx.x * elements_in_block;
  const std::int64_t last = first + elements_in_block < count ? first + elements_in_block : count;
  double sum = 0;
  for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x)
    sum += term(static_cast<double>(wide(x[i])));
  sum = over_block(sum, shared_memory<double>(), Plus());
  if (threadIdx.x == 0) totals[blockIdx.x] = static_cast<A>(factor * sum);
}

template <typename Term>
void sum_of(Cuda cuda, const Tensor& x, double factor, const Tensor& total) {
  check_total(total);
  constexpr Grid one = {.blocks = 1, .threads = 256, .shared_bytes = 256 / warp_size * 8};
  constexpr std::int64_t most_blocks = 4096;
  const std::int64_t count = x.elements();
  const std::int64_t elements_in_block =
      std::max<std::int64_t>(8192, (count + most_blocks - 1) / most_blocks);
  Grid many = one;
  many.blocks = (count + elements_in_block - 1) / elements_in_block;
  const Tensor sums = Tensor::empty({many.blocks}, DType::f64, x.device(), MemoryTag::workspace);
  double* const partial = sums.data<double>();
  if (count > 0)
    with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
      launch(cuda,
             many,
             sum_blocks<T, Term, double>,
             count,
             elements_in_block,
             x.data<T>(),
             Term(),
             1.0,
             partial);
    });
  const auto add_blocks = [&]<typename A>(A* out) {
    launch(cuda,
           one,
           sum_blocks<double, Itself, A>,
           many.blocks,
           most_blocks,
           partial,
           Itself(),
           factor,
           out);
  };
  total.dtype() == DType::f64 ? add_blocks(total.data<double>()) : add_blocks(total.data<float>());
}

}  // namespace

void add_column_sums(Cuda cuda, const Tensor& x, const Tensor& out) {
  check_add_column_sums(x, out);
  const std::int64_t rows = x.shape().rows(), width = x.shape().width();
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const MatrixElement<T> term{width, x.data<T>()};
    if (out.dtype() == DTypeOf<A>::value)
      add_column_sums_of<A>(cuda, x.device(), rows, width, term, out.data<A>());
    else
      add_column_sums_of<A>(cuda, x.device(), rows, width, term, out.data<T>());
  });
}

void sum(Cuda cuda, const Tensor& x, double factor, const Tensor& total) {
  sum_of<Itself>(cuda, x, factor, total);
}

void sum_of_squares(Cuda cuda, const Tensor& x, const Tensor& total) {
  sum_of<Square>(cuda, x, 1, total);
}

}  // namespace longspan
