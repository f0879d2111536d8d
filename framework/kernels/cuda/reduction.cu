#include <span>

#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/column_sums.h"
#include "framework/kernels/elementwise.h"

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
  sum = block_reduce(sum, shared_memory<double>(), Plus());
  if (threadIdx.x == 0) totals[blockIdx.x] = static_cast<A>(factor * sum);
}

// Each tensor writes one number for each block; one more launch adds these.
template <typename Term>
void sum_of(Cuda cuda, std::span<const Tensor> tensors, double factor, const Tensor& total) {
  check_total(total);
  constexpr Grid one = {.blocks = 1, .threads = 256, .shared_bytes = 256 / warp_size * 8};
  const auto elements_in_block = [](const Tensor& x) {
    constexpr std::int64_t max_blocks = 4096;
    return std::max<std::int64_t>(8192, (x.elements() + max_blocks - 1) / max_blocks);
  };
  const auto blocks_of = [&](const Tensor& x) {
    return (x.elements() + elements_in_block(x) - 1) / elements_in_block(x);
  };
  std::int64_t blocks = 0;
  for (const Tensor& x : tensors) blocks += blocks_of(x);
  const Tensor sums = Tensor::empty({blocks}, DType::f64, total.device(), MemoryTag::workspace);
  double* partial = sums.data<double>();
  for (const Tensor& x : tensors) {
    Grid many = one;
    many.blocks = blocks_of(x);
    with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
      launch(cuda,
             many,
             sum_blocks<T, Term, double>,
             x.elements(),
             elements_in_block(x),
             x.data<T>(),
             Term(),
             1.0,
             partial);
    });
    partial += many.blocks;
  }
  const auto add_blocks = [&]<typename A>(A* out) {
    launch(cuda,
           one,
           sum_blocks<double, Itself, A>,
           blocks,
           blocks,
           sums.data<double>(),
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
    const auto add_to = [&]<typename O>(O* sums) {
      sum_columns<A>(cuda, x.device(), rows, width, term, AddToColumn<O>{sums});
    };
    out.dtype() == DTypeOf<A>::value ? add_to(out.data<A>()) : add_to(out.data<T>());
  });
}

void sum(Cuda cuda, const Tensor& x, double factor, const Tensor& total) {
  sum_of<Itself>(cuda, std::span(&x, 1), factor, total);
}

void sum_of_squares(Cuda cuda, const std::vector<Tensor>& tensors, const Tensor& total) {
  sum_of<Square>(cuda, tensors, 1, total);
}

}  // namespace longspan
