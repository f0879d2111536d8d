#include "framework/kernels/cuda/column_sums.h"
#include "framework/kernels/cuda/dropout.h"
#include "framework/kernels/cuda/row_io.h"
#include "framework/kernels/layer_norm.h"
#include "framework/kernels/shared/layer_norm.h"

namespace longspan {
namespace {

// Source of a block's row: a given tensor, or a sum computed on the fly.
template <typename T>
struct GivenRows {
  const T* x;

  __device__ const T* operator()(std::int64_t row, std::int64_t width, T*) const {
    return x + row * width;
  }
};

template <typename T>
struct SummedRows {
  DropoutFunctor<T> dropped;
  bool drops;
  bool holds;  // a row fits in shared memory
  const T* base;
  const T* change;
  T* sum;

  // A thread reads back only elements that it wrote.
  __device__ const T* operator()(std::int64_t row, std::int64_t width, T* held) const {
    T* const own = sum + row * width;
    each_four(width, [&](std::int64_t first) {
      const Vec4<T> onto = read_four(base + row * width, first, width);
      Vec4<T> value = read_four(change + row * width, first, width);
      if (drops) value = dropped(row, first, value);
      for (int k = 0; k < 4; ++k) put(value.at[k], wide(onto.at[k]) + wide(value.at[k]));
      write_four(own, first, width, value);
      if (holds) write_four(held, first, width, value);
    });
    return holds ? held : own;
  }
};

// One block for each row. Two passes: the squares are of differences from a first mean, which their
// sum then corrects. A large mean therefore causes no cancellation. P is the dtype of the weight
// and the bias.
template <typename T, typename Y, typename P, typename A, typename Rows>
__global__ void normalize_rows(std::int64_t width,
                               A epsilon,
                               bool centered,
                               Rows rows,
                               const P* weight,
                               const P* bias,
                               Y* y,
                               A* means,
                               A* inverses) {
  A* const scratch = shared_memory<A>();
  const T* const x =
      rows(blockIdx.x,
           width,
           reinterpret_cast<T*>(shared_memory<unsigned char>() + row_scratch_bytes<A>));
  y += blockIdx.x * width;
  const A count = static_cast<A>(width);
  A part = 0;
  each_four(width, [&](std::int64_t first) {
    const Vec4<T> four = read_four(x, first, width);
    for (int k = 0; k < 4; ++k) part += wide(four.at[k]);
  });
  const A sum = block_reduce(part, scratch, Plus());
  const A first_mean = centered ? sum / count : A{0};
  A squares = 0, differences = 0;
  each_four(width, [&](std::int64_t first) {
    const Vec4<T> four = read_four(x, first, width);
    for (int k = 0; k < 4; ++k) {
      const A difference = first + k < width ? wide(four.at[k]) - first_mean : A{0};
      differences += difference;
      squares += difference * difference;
    }
  });
  block_reduce_sum(squares, differences, scratch);
  const A correction = centered ? differences / count : A{0};
  const A variance = Max()(squares / count - correction * correction, A{0});
  const A mean = first_mean + correction;
  const A inverse = A{1} / std::sqrt(variance + epsilon);
  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    inverses[blockIdx.x] = inverse;
  }
  each_four(width, [&](std::int64_t first) {
    const Vec4<T> four = read_four(x, first, width);
    const Vec4<P> gain = read_four(weight, first, width), shift = read_four(bias, first, width);
    Vec4<Y> normal;
    for (int k = 0; k < 4; ++k)
      put(normal.at[k],
          (wide(four.at[k]) - mean) * inverse * static_cast<A>(wide(gain.at[k])) +
              static_cast<A>(wide(shift.at[k])));
    write_four(y, first, width, normal);
  });
}

// No additional operation on the groups of four of a gradient.
struct NothingMore {
  template <typename T>
  __device__ void operator()(std::int64_t, std::int64_t, std::int64_t, const Vec4<T>&) const {}
};

template <typename T>
struct DropToo {
  DropoutFunctor<T> dropped;
  T* out;

  __device__ void operator()(std::int64_t row,
                             std::int64_t first,
                             std::int64_t width,
                             const Vec4<T>& gradient) const {
    write_four(out + row * width, first, width, dropped(row, first, gradient));
  }
};

template <typename T, typename Y, typename P, typename A>
struct BackwardRows {
  std::int64_t rows;
  std::int64_t width;
  std::int64_t in_block;  // rows for each block
  const T* x;
  const P* weight;
  const A* means;
  const A* inverses;
  const Y* dy;
  T* dx;
  bool add;    // accumulates into dx
  bool holds;  // a block's sums fit in shared memory
  bool centered;
  A* partial;  // [blocks, 2 width]
};

// Several rows for each block. With g = weight dy and h = (x - mean) / deviation:
//   dx = (g - mean(g) - h mean(g h)) / deviation, or dx += that,
// and partial[block] = [the sums of dy h; those of dy], one row each. They are accumulated in
// shared memory if they fit.
template <typename T, typename Y, typename P, typename A, typename More>
__global__ void normalize_rows_backward(BackwardRows<T, Y, P, A> given, More more) {
  const std::int64_t width = given.width;
  const P* const weight = given.weight;
  A* const scratch = shared_memory<A>();
  A* const own = given.partial + blockIdx.x * 2 * width;
  A* const dweight =
      given.holds ? reinterpret_cast<A*>(shared_memory<unsigned char>() + row_scratch_bytes<A>)
                  : own;
  A* const dbias = dweight + width;
  const A count = static_cast<A>(width);
  each_four(width, [&](std::int64_t first) {
    write_four(dweight, first, width, Vec4<A>{});
    write_four(dbias, first, width, Vec4<A>{});
  });
  const std::int64_t begin = blockIdx.x * given.in_block;
  const std::int64_t end =
      begin + given.in_block < given.rows ? begin + given.in_block : given.rows;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * width;
    const A mean = given.means[row], inverse = given.inverses[row];
    const T* const x = given.x + at;
    const Y* const dy = given.dy + at;
    T* const dx = given.dx + at;
    A sum = 0, product = 0;
    each_four(width, [&](std::int64_t first) {
      const Vec4<T> value = read_four(x, first, width);
      const Vec4<Y> above = read_four(dy, first, width);
      const Vec4<P> gain = read_four(weight, first, width);
      Vec4<A> normal_sums = read_four(dweight, first, width);
      Vec4<A> sums = read_four(dbias, first, width);
      for (int k = 0; k < 4; ++k) {
        const A gradient = static_cast<A>(wide(above.at[k]));
        const A normal = (wide(value.at[k]) - mean) * inverse;
        const A weighted = gradient * static_cast<A>(wide(gain.at[k]));
        sum += weighted;
        product += weighted * normal;
        normal_sums.at[k] += gradient * normal;
        sums.at[k] += gradient;
      }
      write_four(dweight, first, width, normal_sums);
      write_four(dbias, first, width, sums);
    });
    block_reduce_sum(sum, product, scratch);
    sum = given.centered ? sum / count : A{0};
    product /= count;
    each_four(width, [&](std::int64_t first) {
      const Vec4<T> value = read_four(x, first, width);
      const Vec4<Y> above = read_four(dy, first, width);
      const Vec4<P> gain = read_four(weight, first, width);
      Vec4<T> gradient = {};
      if (given.add) gradient = read_four(dx, first, width);
      for (int k = 0; k < 4; ++k) {
        const A weighted = static_cast<A>(wide(above.at[k])) * static_cast<A>(wide(gain.at[k]));
        const A normal = (wide(value.at[k]) - mean) * inverse;
        const A here = (weighted - sum - normal * product) * inverse;
        put(gradient.at[k], given.add ? wide(gradient.at[k]) + here : here);
      }
      write_four(dx, first, width, gradient);
      more(row, first, width, gradient);
    });
  }
  if (!given.holds) return;
  each_four(width, [&](std::int64_t first) {
    write_four(own, first, width, read_four(dweight, first, width));
    write_four(own + width, first, width, read_four(dbias, first, width));
  });
}

// dweight and dbias, concatenated, += the sums of all blocks.
template <typename A>
struct AddToBoth {
  std::int64_t width;
  A* dweight;
  A* dbias;

  __device__ void operator()(std::int64_t i, A sum) const {
    (i < width ? dweight[i] : dbias[i - width]) += sum;
  }
};

// Calls f with the types of x, y and the weight, which has x's dtype or its accumulator dtype.
template <typename F>
void with_all_types(const Tensor& x, const Tensor& y, const Tensor& weight, const F& f) {
  with_norm_types(x, y, [&]<typename T, typename Y>(TypeTag<T> tag, TypeTag<Y> result) {
    if (weight.dtype() == x.dtype())
      f(tag, result, tag);
    else
      f(tag, result, TypeTag<Accumulator<T>>());
  });
}

// rows_of(tag of x's type, whether shared memory holds a row) returns the source of rows.
template <typename RowsOf>
void normalize(Cuda cuda, const LayerNorm& norm, bool sums, const RowsOf& rows_of) {
  constexpr std::size_t max_owned_bytes = 24 << 10;
  require(norm.bias.dtype() == norm.weight.dtype(),
          "layer_norm: expected weight and bias of one dtype");
  const std::int64_t width = norm.x.shape().width();
  with_all_types(norm.x,
                 norm.y,
                 norm.weight,
                 [&]<typename T, typename Y, typename P>(TypeTag<T> tag, TypeTag<Y>, TypeTag<P>) {
                   using A = Accumulator<T>;
                   const std::size_t row_bytes = static_cast<std::size_t>(width) * sizeof(T);
                   const bool holds = sums && row_bytes <= max_owned_bytes;
                   const auto rows = rows_of(tag, holds);
                   Grid grid = row_grid<A>(norm.x.shape().rows(), width);
                   grid.shared_bytes += holds ? row_bytes : 0;
                   launch(cuda,
                          grid,
                          normalize_rows<T, Y, P, A, std::remove_const_t<decltype(rows)>>,
                          width,
                          static_cast<A>(norm.epsilon),
                          norm.centered,
                          rows,
                          norm.weight.data<P>(),
                          norm.bias.data<P>(),
                          norm.y.data<Y>(),
                          norm.mean.data<A>(),
                          norm.rstd.data<A>());
                 });
}

// more_of(tag of x's type) returns an additional operation on the gradient.
template <typename MoreOf>
void normalize_backward(Cuda cuda, const LayerNormGradient& norm, const MoreOf& more_of) {
  // approximately the number of blocks resident on a large GPU; rows per block that make partial
  // sums cheap
  constexpr std::int64_t max_blocks = 1024, min_rows = 4;
  constexpr std::size_t max_owned_bytes = 64 << 10;
  const std::int64_t rows = norm.x.shape().rows(), width = norm.x.shape().width();
  if (rows == 0) return;
  const std::int64_t in_block = std::max((rows + max_blocks - 1) / max_blocks, min_rows);
  const std::int64_t blocks = (rows + in_block - 1) / in_block;
  with_all_types(
      norm.x,
      norm.dy,
      norm.weight,
      [&]<typename T, typename Y, typename P>(TypeTag<T> tag, TypeTag<Y>, TypeTag<P>) {
        using A = Accumulator<T>;
        const Tensor partial = Tensor::empty(
            {blocks, 2 * width}, DTypeOf<A>::value, norm.x.device(), MemoryTag::workspace);
        const auto more = more_of(tag);
        const std::size_t sums_bytes = 2 * static_cast<std::size_t>(width) * sizeof(A);
        const bool holds = sums_bytes <= max_owned_bytes;
        Grid grid = row_grid<A>(blocks, width);
        grid.shared_bytes += holds ? sums_bytes : 0;
        launch(cuda,
               grid,
               normalize_rows_backward<T, Y, P, A, std::remove_const_t<decltype(more)>>,
               BackwardRows<T, Y, P, A>{.rows = rows,
                                        .width = width,
                                        .in_block = in_block,
                                        .x = norm.x.data<T>(),
                                        .weight = norm.weight.data<P>(),
                                        .means = norm.mean.data<A>(),
                                        .inverses = norm.rstd.data<A>(),
                                        .dy = norm.dy.data<Y>(),
                                        .dx = norm.dx.data<T>(),
                                        .add = norm.add,
                                        .holds = holds,
                                        .centered = norm.centered,
                                        .partial = partial.data<A>()},
               more);
        add_partials(cuda,
                     blocks,
                     2 * width,
                     partial.data<A>(),
                     AddToBoth<A>{width, norm.dweight.data<A>(), norm.dbias.data<A>()});
      });
}

}  // namespace

void layer_norm(Cuda cuda, const LayerNorm& norm) {
  check(norm);
  normalize(cuda, norm, false, [&]<typename T>(TypeTag<T>, bool) {
    return GivenRows<T>{norm.x.data<T>()};
  });
}

void residual_layer_norm(Cuda cuda,
                         const Tensor& base,
                         const Dropout& change,
                         const LayerNorm& norm) {
  check(base, change, norm);
  normalize(cuda, norm, true, [&]<typename T>(TypeTag<T>, bool holds) {
    return SummedRows<T>{DropoutFunctor<T>(change),
                         change.rate > 0,
                         holds,
                         base.data<T>(),
                         change.x.data<T>(),
                         norm.x.data<T>()};
  });
}

void layer_norm_backward(Cuda cuda, const LayerNormGradient& norm) {
  check(norm);
  normalize_backward(cuda, norm, [](auto) { return NothingMore(); });
}

void residual_layer_norm_backward(Cuda cuda, const LayerNormGradient& norm, const Dropout& change) {
  check(norm, change);
  normalize_backward(cuda, norm, [&]<typename T>(TypeTag<T>) {
    return DropToo<T>{DropoutFunctor<T>(change), change.y.data<T>()};
  });
}

}  // namespace longspan
