#include "framework/kernels/cuda/block_reduce.h"
#include "framework/kernels/cuda/launch.h"
#include "framework/kernels/transpose.h"

namespace longspan {
namespace {

constexpr int side = 32;
constexpr int rows_at_once = 8;

// A block transposes a tile of side x side in shared memory. Rows are padded by one element, so
// that a column lies in different banks. Global reads and writes are both row by row.
template <typename T>
__global__ void transpose_tiles(std::int64_t rows, std::int64_t columns, const T* x, T* y) {
  T* const tile = shared_memory<T>();
  const std::int64_t tiles_across = (columns + side - 1) / side;
  const std::int64_t tiles = (rows + side - 1) / side * tiles_across;
  const std::int64_t matrix = blockIdx.x / tiles * rows * columns;
  const std::int64_t first_row = blockIdx.x % tiles / tiles_across * side;
  const std::int64_t first_column = blockIdx.x % tiles % tiles_across * side;
  const int across = static_cast<int>(threadIdx.x) % side;
  for (int down = static_cast<int>(threadIdx.x) / side; down < side; down += rows_at_once)
    if (first_row + down < rows && first_column + across < columns)
      tile[down * (side + 1) + across] =
          x[matrix + (first_row + down) * columns + first_column + across];
  __syncthreads();
  for (int down = static_cast<int>(threadIdx.x) / side; down < side; down += rows_at_once)
    if (first_column + down < columns && first_row + across < rows)
      y[matrix + (first_column + down) * rows + first_row + across] =
          tile[across * (side + 1) + down];
}

}  // namespace

void transpose(Cuda cuda, const Tensor& x, const Tensor& y) {
  check_transpose(x, y);
  const std::int64_t rows = x.shape()[1], columns = x.shape()[2];
  const std::int64_t tiles = (rows + side - 1) / side * ((columns + side - 1) / side);
  with_floating_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
    launch(cuda,
           {.blocks = x.shape()[0] * tiles,
            .threads = side * rows_at_once,
            .shared_bytes = side * (side + 1) * sizeof(T)},
           transpose_tiles<T>,
           rows,
           columns,
           x.data<T>(),
           y.data<T>());
  });
}

}  // namespace longspan
