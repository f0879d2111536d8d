// Gradients of relative-position tables. The tiles of a diagonal (query tile - key tile) have the
// same 127 relative positions. A block iterates over one diagonal and accumulates a band of rows;
// the bands are summed afterwards.
#include "framework/kernels/attention/cuda/matrix_calls.h"

namespace longspan::tile_attention {
namespace {

// halves += the contributions of a tile's pairs to its band: row e sums factor(i, j) * right(row)
// where j - i + 63 is e. The row is i, or j for products of keys with the table.
template <Multiplied side, typename T>
__device__ void add_band(Sums<T> (&halves)[2], const T* factors, const T* right) {
  for (int half = 0; half < 2; ++half)
    add_product(
        halves[half],
        tile,
        [=](int e, int own) {
          const int by = half * tile + e - (tile - 1);  // key minus query
          const int other = side == Multiplied::query ? own + by : own - by;
          if (other < 0 || other >= tile) return T{0};
          return side == Multiplied::query ? factors[own * tile_step + other]
                                           : factors[other * tile_step + own];
        },
        [=](int own, int c) { return right[own * tile_step + c]; });
}

// Calls f(place) for the tiles of a head's diagonal in all batch rows.
template <typename In, typename F>
__device__ void for_tiles_of_diagonal(const GradientCall<In>& g,
                                      std::int64_t h,
                                      std::int64_t diagonal,
                                      F f) {
  const std::int64_t query_tiles = g.call.query_tiles(), key_tiles = g.call.key_tiles();
  for (std::int64_t b = g.row_begin; b < g.row_begin + g.rows; ++b)
    for (std::int64_t q = diagonal > 0 ? diagonal : 0; q < query_tiles && q - diagonal < key_tiles;
         ++q) {
      const TileKind kind = find_visit(g, b, q, q - diagonal).kind;
      if (kind == TileKind::none) continue;
      f(TilePosition{b, h, q * tile, (q - diagonal) * tile, kind == TileKind::full});
    }
}

// bands: [heads of the group, diagonals, 128, width]; row e as in Diagonals, the last is zero.
template <typename In>
__global__ void sum_any_diagonals(GradientCall<In> g,
                                  Diagonals diagonals,
                                  bool of_values,
                                  Accumulator<In>* bands) {
  using T = Accumulator<In>;
  const AttentionCall<In>& call = g.call;
  const TileMemory<T> memory;
  const int width = of_values ? call.value_dim : call.dim;
  const int slices = slices_of(width);
  std::int64_t item = blockIdx.x;
  const int first = static_cast<int>(item % slices) * tile;
  item /= slices;
  const std::int64_t diagonal = diagonals.first + item % diagonals.count;
  const std::int64_t h = g.head_begin + item / diagonals.count;
  Sums<T> halves[2];
  const T* const factors = of_values ? memory.first : memory.second;
  for_tiles_of_diagonal(g, h, diagonal, [&](const TilePosition& at) {
    const TileRows<In> rows{call, at, *memory.keys};
    read_gradients(g, at, memory);
    fill_rows<tile>(memory.stage, tile, tile_step, [&](int i, int c) {
      if (first + c >= width) return T{0};
      return of_values ? rows.of_query(g.dout, i, first + c)
                       : rows.query(i, first + c, call.position_bias);
    });
    __syncthreads();
    add_band<Multiplied::query>(halves, factors, memory.stage);
    if (of_values || !call.keys_by_distance) return;
    __syncthreads();
    fill_rows<tile>(memory.stage, tile, tile_step, [&](int j, int c) {
      return first + c < width ? rows.key(j, first + c) : T{0};
    });
    __syncthreads();
    add_band<Multiplied::key>(halves, factors, memory.stage);
  });
  for (int half = 0; half < 2; ++half)
    halves[half].each([&](int e, int c, T sum) {
      if (first + c < width) bands[(item * 2 * tile + half * tile + e) * width + first + c] = sum;
    });
}

// Learned biases by relative position: bands [heads of the group, diagonals, 128] of score
// gradients alone. A thread has a row of the band.
template <typename In>
__global__ void sum_bias_diagonals(GradientCall<In> g,
                                   Diagonals diagonals,
                                   Accumulator<In>* bands) {
  using T = Accumulator<In>;
  static_assert(tile_threads == 2 * tile);
  const TileMemory<T> memory;
  const std::int64_t item = blockIdx.x;
  const std::int64_t diagonal = diagonals.first + item % diagonals.count;
  const std::int64_t h = g.head_begin + item / diagonals.count;
  const int after = static_cast<int>(threadIdx.x) - (tile - 1);  // key minus query
  const int begin = after < 0 ? -after : 0, end = after < 0 ? tile : tile - after;
  T sum = 0;
  for_tiles_of_diagonal(g, h, diagonal, [&](const TilePosition& at) {
    read_gradients(g, at, memory, Differentiated::scores);
    for (int i = begin; i < end; ++i) sum += memory.second[i * tile_step + i + after];
  });
  bands[item * 2 * tile + threadIdx.x] = sum;
}

// Element (relative position, head of the group, feature) of a table by head. Each relative
// position is in two bands.
template <typename T>
struct AddBandsByHead {
  Diagonals diagonals;
  std::int64_t head_begin, group, heads, width;
  T factor;
  const T* bands;
  T* gradient;

  __device__ void operator()(std::int64_t element) const {
    const std::int64_t c = element % width, of_group = element / width % group;
    const std::int64_t distance = element / width / group;
    // The band row of this relative position in the first diagonal; it is one tile lower in each
    // following diagonal.
    const std::int64_t row = diagonals.distance(0, 0) - distance;
    std::int64_t i = row < 0 ? (-row + tile - 1) / tile : 0;
    T sum = 0;
    for (; i < diagonals.count && row + i * tile < 2 * tile; ++i)
      sum += bands[((of_group * diagonals.count + i) * 2 * tile + row + i * tile) * width + c];
    gradient[(distance * heads + head_begin + of_group) * width + c] += factor * sum;
  }
};

// Element (row, feature) of a table shared by heads. One block each, because the end rows sum all
// relative positions beyond them.
template <typename T>
__global__ void add_clipped_bands(Diagonals diagonals,
                                  std::int64_t group,
                                  std::int64_t most,  // rows -most .. most of k - p
                                  std::int64_t width,
                                  T factor,
                                  const T* bands,
                                  T* gradient) {
  const std::int64_t row = blockIdx.x / width - most, c = blockIdx.x % width;
  T sum = 0;
  for (std::int64_t i = threadIdx.x; i < group * diagonals.count; i += blockDim.x) {
    // Band rows [begin, end) have k - p equal to e - origin.
    const std::int64_t origin = diagonals.distance(i % diagonals.count, 0);
    std::int64_t begin = row == -most ? 0 : row + origin;
    std::int64_t end = row == most ? 2 * tile : row + origin + 1;
    if (begin < 0) begin = 0;
    if (end > 2 * tile) end = 2 * tile;
    for (std::int64_t e = begin; e < end; ++e) sum += bands[(i * 2 * tile + e) * width + c];
  }
  sum = block_reduce(sum, shared_memory<T>(), Plus());
  if (threadIdx.x == 0) gradient[blockIdx.x] += factor * sum;
}

// Element (head of the group, feature) of the gradient of the position bias.
template <typename T>
struct AddBiasOfDiagonals {
  std::int64_t diagonals, width;
  T factor;
  const T* parts;
  T* gradient;

  __device__ void operator()(std::int64_t element) const {
    const std::int64_t h = element / width, c = element % width;
    T sum = 0;
    for (std::int64_t i = 0; i < diagonals; ++i) sum += parts[(h * diagonals + i) * width + c];
    gradient[element] += factor * sum;
  }
};

// Memory limit of the bands.
constexpr std::int64_t max_band_bytes = std::int64_t{1} << 26;

// Calls f(diagonals, bands) for the diagonals with a visible relative position, as many at once as
// fit in the workspace. Diagonal d has the relative positions origin + d * tile +- (tile - 1).
// bands: [heads of the group, diagonals, 128, width].
template <typename In, typename F>
void for_diagonals(const GradientCall<In>& g,
                   const TilePlan& plan,
                   std::int64_t width,
                   const Device& device,
                   const F& f) {
  using T = Accumulator<In>;
  if (plan.pairs() == 0 || g.rows == 0) return;
  const std::int64_t origin = g.call.query_begin - g.call.key_begin;
  const std::int64_t begin =
      std::max(floor_divide(plan.nearest() - origin, tile), 1 - g.call.key_tiles());
  const std::int64_t end = std::min(floor_divide(plan.max_distance() - origin + tile - 1, tile) + 1,
                                    g.call.query_tiles());
  const std::int64_t band_bytes = g.heads * 2 * tile * width * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t most = std::max<std::int64_t>(1, max_band_bytes / band_bytes);
  for (std::int64_t first = begin; first < end; first += most) {
    const Diagonals diagonals = {first, std::min(most, end - first), origin};
    const Shape shape = {g.heads, diagonals.count, 2 * tile, width};
    const Tensor bands = Tensor::empty(shape, DTypeOf<T>::value, device, MemoryTag::workspace);
    f(diagonals, bands);
  }
}

}  // namespace

template <typename In>
void add_table_gradient(Cuda cuda,
                        const GradientCall<In>& g,
                        const TilePlan& plan,
                        bool of_values,
                        const Tensor& gradient,
                        const Tensor& bias_gradient) {
  using T = Accumulator<In>;
  const auto& table = of_values ? g.call.value_table : g.call.key_table;
  const std::int64_t width = table.width;
  const T factor = of_values ? T{1} : g.call.scale;
  const Device& device = gradient.device();
  for_diagonals(g, plan, width, device, [&](const Diagonals& diagonals, const Tensor& bands) {
    if constexpr (sizeof(In) == 2) {
      if (g.with_matrices) {
        Tensor biases;
        const Shape shape = {g.heads, diagonals.count, width};
        if (bias_gradient.defined())
          biases = Tensor::empty(shape, DTypeOf<T>::value, device, MemoryTag::workspace);
        T* const parts = biases.defined() ? biases.data<T>() : nullptr;
        sum_diagonals(cuda, g, diagonals, of_values, bands.data<T>(), parts);
        if (parts != nullptr)
          for_each_element(cuda,
                           g.heads * width,
                           AddBiasOfDiagonals<T>{diagonals.count,
                                                 width,
                                                 factor,
                                                 parts,
                                                 bias_gradient.data<T>() + g.head_begin * width});
      }
    }
    if (!g.with_matrices)
      launch(cuda,
             {.blocks = g.heads * diagonals.count * slices_of(static_cast<int>(width)),
              .threads = tile_threads,
              .shared_bytes = TileMemory<T>::bytes(true)},
             sum_any_diagonals<In>,
             g,
             diagonals,
             of_values,
             bands.data<T>());
    T* const to = gradient.data<T>();
    if (table.clipped)
      launch(cuda,
             row_grid<T>(gradient.elements(), g.heads * diagonals.count),
             add_clipped_bands<T>,
             diagonals,
             g.heads,
             table.high,
             width,
             factor,
             bands.data<T>(),
             to);
    else
      for_each_element(
          cuda,
          table.count() * g.heads * width,
          AddBandsByHead<T>{
              diagonals, g.head_begin, g.heads, g.call.heads, width, factor, bands.data<T>(), to});
  });
}

template <typename In>
void add_distance_bias_gradient(Cuda cuda,
                                const GradientCall<In>& g,
                                const TilePlan& plan,
                                const Tensor& gradient) {
  using T = Accumulator<In>;
  const std::int64_t distances = gradient.shape()[1];
  for_diagonals(g, plan, 1, gradient.device(), [&](const Diagonals& diagonals, const Tensor& all) {
    const T* const bands = all.data<T>();
    launch(cuda,
           {.blocks = g.heads * diagonals.count,
            .threads = tile_threads,
            .shared_bytes = TileMemory<T>::bytes(true)},
           sum_bias_diagonals<In>,
           g,
           diagonals,
           all.data<T>());
    for (std::int64_t h = 0; h < g.heads; ++h)
      launch(cuda,
             row_grid<T>(distances, diagonals.count),
             add_clipped_bands<T>,
             diagonals,
             std::int64_t{1},
             g.call.bias.max_distance,
             std::int64_t{1},
             T{1},
             bands + h * diagonals.count * 2 * tile,
             gradient.data<T>() + (g.head_begin + h) * distances);
  });
}

template void add_table_gradient(
    Cuda, const GradientCall<double>&, const TilePlan&, bool, const Tensor&, const Tensor&);
template void add_table_gradient(
    Cuda, const GradientCall<float>&, const TilePlan&, bool, const Tensor&, const Tensor&);
template void add_table_gradient(
    Cuda, const GradientCall<BFloat16>&, const TilePlan&, bool, const Tensor&, const Tensor&);
template void add_table_gradient(
    Cuda, const GradientCall<Float16>&, const TilePlan&, bool, const Tensor&, const Tensor&);

template void add_distance_bias_gradient(Cuda,
                                         const GradientCall<double>&,
                                         const TilePlan&,
                                         const Tensor&);
template void add_distance_bias_gradient(Cuda,
                                         const GradientCall<float>&,
                                         const TilePlan&,
                                         const Tensor&);
template void add_distance_bias_gradient(Cuda,
                                         const GradientCall<BFloat16>&,
                                         const TilePlan&,
                                         const Tensor&);
template void add_distance_bias_gradient(Cuda,
                                         const GradientCall<Float16>&,
                                         const TilePlan&,
                                         const Tensor&);

}  // namespace longspan::tile_attention
