#include "framework/kernels/cuda/block.h"
#include "framework/kernels/cuda/columns.h"
#include "framework/kernels/layer_norm.h"

namespace longspan {
namespace {

// out[i] = f(i), rounded, of a row by the threads of a block; as in `write_elements` several f are
// there before the first is written, and f(i) may read out[i].
template <typename T, typename F>
__device__ void write_row(std::int64_t width, T* out, const F& f) {
  constexpr int together = 8;
  const std::int64_t step = blockDim.x;
  for (std::int64_t i = threadIdx.x; i < width; i += together * step) {
    Accumulator<T> values[together] = {};
    for (int k = 0; k < together; ++k)
      if (i + k * step < width) values[k] = f(i + k * step);
    for (int k = 0; k < together; ++k)
      if (i + k * step < width) put(out[i + k * step], values[k]);
  }
}

// A block a row. Two passes: the squares are of differences from a first mean, which their sum then
// corrects, so a large mean costs no digits. P is the dtype of the weight and the bias.
template <typename T, typename P, typename A>
__global__ void normalise_rows(std::int64_t width,
                               A epsilon,
                               const T* x,
                               const P* weight,
                               const P* bias,
                               T* y,
                               A* means,
                               A* inverses) {
  A* const scratch = shared_memory<A>();
  x += blockIdx.x * width;
  y += blockIdx.x * width;
  const A count = static_cast<A>(width);
  A part = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) part += wide(x[i]);
  const A first = over_block(part, scratch, Plus()) / count;
  A square_part = 0, difference_part = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const A difference = wide(x[i]) - first;
    difference_part += difference;
    square_part += difference * difference;
  }
  const A correction = over_block(difference_part, scratch, Plus()) / count;
  const A squares = over_block(square_part, scratch, Plus());
  const A variance = Greater()(squares / count - correction * correction, A{0});
  const A mean = first + correction;
  const A inverse = A{1} / std::sqrt(variance + epsilon);
  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    inverses[blockIdx.x] = inverse;
  }
  write_row(width, y, [=](std::int64_t i) {
    return (wide(x[i]) - mean) * inverse * static_cast<A>(wide(weight[i])) +
           static_cast<A>(wide(bias[i]));
  });
}

// With g = weight dy and h = (x - mean) / deviation: dx = (g - mean(g) - h mean(g h)) / deviation,
// or dx += that.
template <typename T, typename P, typename A>
__global__ void normalise_rows_backward(std::int64_t width,
                                        const T* x,
                                        const P* weight,
                                        const A* means,
                                        const A* inverses,
                                        const T* dy,
                                        bool add,
                                        T* dx) {
  A* const scratch = shared_memory<A>();
  x += blockIdx.x * width;
  dy += blockIdx.x * width;
  dx += blockIdx.x * width;
  const A mean = means[blockIdx.x], inverse = inverses[blockIdx.x];
  const A count = static_cast<A>(width);
  A sum_part = 0, product_part = 0;
  for (std::int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const A above = wide(dy[i]) * static_cast<A>(wide(weight[i]));
    sum_part += above;
    product_part += above * (wide(x[i]) - mean) * inverse;
  }
  const A sum = over_block(sum_part, scratch, Plus()) / count;
  const A product = over_block(product_part, scratch, Plus()) / count;
  write_row(width, dx, [=](std::int64_t i) {
    const A normal = (wide(x[i]) - mean) * inverse;
    const A own =
        (wide(dy[i]) * static_cast<A>(wide(weight[i])) - sum - normal * product) * inverse;
    return add ? wide(dx[i]) + own : own;
  });
}

// What a row adds to dweight and dbias.
template <typename T>
struct RowGradients {
  using A = Accumulator<T>;
  std::int64_t width;
  const T* x;
  const A* means;
  const A* inverses;
  const T* dy;

  __device__ Pair<A> operator()(std::int64_t row, std::int64_t i) const {
    const A above = wide(dy[row * width + i]);
    return {above * (wide(x[row * width + i]) - means[row]) * inverses[row], above};
  }
};

template <typename A>
struct AddRowGradients {
  A* dweight;
  A* dbias;

  __device__ void operator()(std::int64_t i, const Pair<A>& sum) const {
    dweight[i] += sum.first;
    dbias[i] += sum.second;
  }
};

// Calls f with the types of the rows and of the weights, which are of the rows' or of its
// accumulator.
template <typename F>
void with_row_types(const Tensor& x, const Tensor& weight, const F& f) {
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    if (weight.dtype() == x.dtype())
      f(TypeTag<T>(), TypeTag<T>());
    else
      f(TypeTag<T>(), TypeTag<Accumulator<T>>());
  });
}

}  // namespace

void layer_norm(Cuda cuda, const LayerNorm& norm) {
  check(norm);
  require(norm.bias.dtype() == norm.weight.dtype(),
          "layer_norm: the weight and bias differ in dtype");
  const std::int64_t rows = norm.x.shape().rows(), width = norm.x.shape().width();
  with_row_types(norm.x, norm.weight, [&]<typename T, typename P>(TypeTag<T>, TypeTag<P>) {
    using A = Accumulator<T>;
    launch(cuda,
           row_grid<A>(rows, width),
           normalise_rows<T, P, A>,
           width,
           static_cast<A>(norm.epsilon),
           norm.x.data<T>(),
           norm.weight.data<P>(),
           norm.bias.data<P>(),
           norm.y.data<T>(),
           norm.mean.data<A>(),
           norm.inverse_deviation.data<A>());
  });
}

void layer_norm_backward(Cuda cuda, const LayerNormGradient& norm) {
  check(norm);
  const std::int64_t rows = norm.x.shape().rows(), width = norm.x.shape().width();
  with_row_types(norm.x, norm.weight, [&]<typename T, typename P>(TypeTag<T>, TypeTag<P>) {
    using A = Accumulator<T>;
    const T *x = norm.x.data<T>(), *dy = norm.dy.data<T>();
    const A *means = norm.mean.data<A>(), *inverses = norm.inverse_deviation.data<A>();
    // Before dx is written: it may be dy.
    sum_columns<Pair<A>, A>(cuda,
                            norm.x.device(),
                            rows,
                            width,
                            RowGradients<T>{width, x, means, inverses, dy},
                            AddRowGradients<A>{norm.dweight.data<A>(), norm.dbias.data<A>()});
    launch(cuda,
           row_grid<A>(rows, width),
           normalise_rows_backward<T, P, A>,
           width,
           x,
           norm.weight.data<P>(),
           means,
           inverses,
           dy,
           norm.add,
           norm.dx.data<T>());
  });
}

}  // namespace longspan
