#include "framework/kernels/cpu/loops.h"
#include "framework/kernels/cpu/matmul_backends.h"

namespace longspan {
namespace {

constexpr std::int64_t tile_rows = 8;
constexpr std::int64_t tile_columns = 64;
constexpr std::int64_t tile_terms = 128;

// A matrix as rows of accumulators, in either storage order.
template <typename T>
struct Matrix {
  const T* elements;
  std::int64_t row_stride;
  std::int64_t column_stride;

  Accumulator<T> at(std::int64_t row, std::int64_t column) const {
    return static_cast<Accumulator<T>>(elements[row * row_stride + column * column_stride]);
  }
};

template <typename T>
Matrix<T> matrix(const Tensor& tensor, bool transposed) {
  const std::int64_t width = tensor.shape().width();
  return {tensor.data<T>(), transposed ? 1 : width, transposed ? width : 1};
}

// One tile of c. Terms are packed in pieces that fit in the L1 cache.
template <typename T, typename A>
void sum_tile(const Matrix<T>& a,
              const Matrix<T>& b,
              std::int64_t row,
              std::int64_t column,
              std::int64_t rows,
              std::int64_t columns,
              std::int64_t terms,
              A (&sums)[tile_rows][tile_columns]) {
  A packed[tile_terms][tile_columns];
  for (std::int64_t begin = 0; begin < terms; begin += tile_terms) {
    const std::int64_t count = std::min(tile_terms, terms - begin);
    for (std::int64_t p = 0; p < count; ++p)
      for (std::int64_t j = 0; j < tile_columns; ++j)
        packed[p][j] = j < columns ? b.at(begin + p, column + j) : A{0};
    for (std::int64_t i = 0; i < rows; ++i) {
      A total[tile_columns];
      std::copy(sums[i], sums[i] + tile_columns, total);
      for (std::int64_t p = 0; p < count; ++p) {
        const A factor = a.at(row + i, begin + p);
#pragma omp simd
        for (std::int64_t j = 0; j < tile_columns; ++j) total[j] += factor * packed[p][j];
      }
      std::copy(total, total + tile_columns, sums[i]);
    }
  }
}

template <typename T, typename C>
void product(const Matmul& matmul, const MatmulExtents& extents) {
  using A = Accumulator<T>;
  const auto a = matrix<T>(matmul.a, matmul.transpose_a);
  const auto b = matrix<T>(matmul.b, matmul.transpose_b);
  C* c = matmul.c.data<C>();
  const auto bias_or_zeros =
      matmul.bias.defined()
          ? AccumulatorView<A>(matmul.bias)
          : AccumulatorView<A>(std::vector<A>(static_cast<std::size_t>(extents.n)));
  const A* bias = bias_or_zeros.data();
  const auto [m, k, n] = extents;
  const std::int64_t across = (n + tile_columns - 1) / tile_columns;
  const std::int64_t down = (m + tile_rows - 1) / tile_rows;
  const bool accumulate = matmul.accumulate;
  const std::int64_t cost = tile_rows * tile_columns * std::max<std::int64_t>(k / 16, 1);
  for_ranges(across * down, cost, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const std::int64_t row = tile % down * tile_rows, column = tile / down * tile_columns;
      const std::int64_t rows = std::min(tile_rows, m - row);
      const std::int64_t columns = std::min(tile_columns, n - column);
      A sums[tile_rows][tile_columns] = {};
      sum_tile(a, b, row, column, rows, columns, k, sums);
      for (std::int64_t i = 0; i < rows; ++i) {
        C* to = c + (row + i) * n + column;
        for (std::int64_t j = 0; j < columns; ++j)
          to[j] = C((accumulate ? static_cast<A>(to[j]) : bias[column + j]) + sums[i][j]);
      }
    }
  });
}

}  // namespace

void matmul_reference(const Matmul& matmul, const MatmulExtents& extents) {
  with_floating_type(matmul.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (matmul.c.dtype() == matmul.a.dtype())
      product<T, T>(matmul, extents);
    else
      product<T, Accumulator<T>>(matmul, extents);
  });
}

}  // namespace longspan
