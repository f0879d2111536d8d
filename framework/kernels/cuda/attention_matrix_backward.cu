// The backward pass on matrix units. As on the other path a block by query tile writes the gradient
// of the query, one by key tile those of the key and the value, where the tile of scores is held
// transposed, so that what comes out of one product goes into the next without leaving registers.
#include "framework/kernels/cuda/attention_matrix.h"

namespace longspan::tile_attention {
namespace {

// Two tiles of rows that are kept and two of those that stream past, twice.
template <typename In, int dim>
struct BackwardMemory {
  TileKeys* keys;
  float (*sums)[2][tile];  // of two stages the log-sum-exp, in units of ln 2, and delta of queries
  float* stage;
  In* own[2];
  In* other[2][2];

  static constexpr std::size_t sum_bytes = 4 * tile * sizeof(float);
  static constexpr std::size_t bytes =
      sizeof(TileKeys) + sum_bytes + stage_bytes + 6 * matrix_bytes<dim>;

  __device__ BackwardMemory() {
    auto* at = shared_memory<unsigned char>();
    keys = reinterpret_cast<TileKeys*>(at);
    sums = reinterpret_cast<float(*)[2][tile]>(at + sizeof(TileKeys));
    stage = reinterpret_cast<float*>(at + sizeof(TileKeys) + sum_bytes);
    at += sizeof(TileKeys) + sum_bytes + stage_bytes;
    const auto take = [&] {
      In* const taken = reinterpret_cast<In*>(at);
      at += matrix_bytes<dim>;
      return taken;
    };
    for (auto*& tile_of_rows : own) tile_of_rows = take();
    for (auto& pair : other)
      for (auto*& tile_of_rows : pair) tile_of_rows = take();
  }
};

template <typename In, int dim>
__device__ void begin_copy_queries(const GradientCall<In>& g,
                                   std::int64_t b,
                                   std::int64_t h,
                                   std::int64_t first,
                                   In* const (&to)[2]) {
  const auto& call = g.call;
  const std::int64_t place = call.place(b, call.time, first, h, dim, 0);
  const auto real = [&](int i) { return first + i < call.time; };
  begin_copy_rows<dim>(to[0], call.query + place, call.heads * dim, real);
  begin_copy_rows<dim>(to[1], g.dout + place, call.heads * dim, real);
}

template <typename In, int dim>
__device__ void begin_copy_keys(const AttentionCall<In>& call,
                                std::int64_t b,
                                std::int64_t h,
                                std::int64_t first,
                                In* const (&to)[2]) {
  const std::int64_t place = call.place(b, call.keys, first, h, dim, 0);
  const auto real = [&](int j) { return call.is_key(b, h, first + j); };
  begin_copy_rows<dim>(to[0], call.key + place, call.heads * dim, real);
  begin_copy_rows<dim>(to[1], call.value + place, call.heads * dim, real);
}

// The log-sum-exp in units of ln 2 and delta of 64 queries. Infinity for a row that sees no key
// makes its probabilities 0.
template <typename In>
__device__ void read_sums(const GradientCall<In>& g,
                          std::int64_t b,
                          std::int64_t h,
                          std::int64_t first,
                          float (&to)[2][tile]) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i >= tile) return;
  const std::int64_t place = (b * g.call.heads + h) * g.call.time + first + i;
  const bool real = first + i < g.call.time;
  const float sum = real ? g.call.log_sum_exp[place] : minus_infinity<float>;
  to[0][i] = sum == minus_infinity<float> ? -minus_infinity<float> : sum * log2_of_e;
  to[1][i] = real ? g.delta[place] : 0;
}

// Products become probabilities that weigh the values, and gradients of probabilities those of
// scores. Rows are queries and columns keys, or with `transposed` the other way round.
template <bool transposed, typename In>
__device__ void differentiate(const GradientCall<In>& g,
                              const TilePlace& at,
                              const TileKeys& keys,
                              const float (&sums)[2][tile],
                              float* stage,
                              WarpSums<tile>& scores,
                              WarpSums<tile>& gradients) {
  const auto& call = g.call;
  const float to_units = call.scale * log2_of_e;
  const auto query_of = [](int row, int column) { return transposed ? column : row; };
  const auto key_of = [](int row, int column) { return transposed ? row : column; };
  if (is_plain(call, at.full))
    scores.change([=](int, int, float product, int) { return product * to_units; });
  else
    change_by_stage(scores, stage, [&](int r, int c, float product) {
      return TileRow<In>(call, at, keys, query_of(r, c)).score(key_of(r, c), product) * log2_of_e;
    });
  scores.change([&](int r, int c, float score, int) {
    return tensor_core::power_of_two(score - sums[0][query_of(r, c)]);
  });
  // dS = P (keep dP - delta), and what weighs the values is keep P.
  const auto finish = [&](auto n, auto s, float keep, bool constant) {
    const int i = query_of(WarpSums<tile>::row(s), WarpSums<tile>::column(n, s));
    const float power = scores.of[n][s];
    gradients.of[n][s] =
        power == 0 || constant ? 0 : power * (gradients.of[n][s] * keep - sums[1][i]);
    scores.of[n][s] = power * keep;
  };
  if (!call.dropout.active && !call.hash.has_self) {
    unrolled<tile / 2>([&](auto e) {
      finish(std::integral_constant<int, e / 4>(), std::integral_constant<int, e % 4>(), 1, false);
    });
    return;
  }
  // The score of a pair with itself does not depend on the query or the key: its factor comes as
  // -1 less the factor.
  Draws<float> draws;
  join_by_stage(
      scores,
      stage,
      [&](int r, int c, float) {
        const int i = query_of(r, c), j = key_of(r, c);
        const float keep = call.dropout.active ? keep_of(call, at, draws, i, j) : 1;
        return TileRow<In>(call, at, keys, i).is_self(j) ? -1 - keep : keep;
      },
      [&](auto n, auto s, float factor) {
        finish(n, s, factor < 0 ? -1 - factor : factor, factor < 0);
      });
}

template <typename In, int dim>
__global__ void __launch_bounds__(tile_threads)
    differentiate_queries(GradientCall<In> g, Either<In> dquery) {
  const AttentionCall<In>& call = g.call;
  const BackwardMemory<In, dim> memory;
  const BlockPlace block(call, g.head_begin, g.heads, g.plan.by_query.order);
  const std::int64_t b = block.b, h = block.h, query = block.tile_index * tile;
  TileCursor cursor(g.plan.by_query, block.tile_index);
  begin_copy_queries<In, dim>(g, b, h, query, memory.own);
  read_sums(g, b, h, query, memory.sums[0]);
  if (cursor.any())
    begin_copy_keys<In, dim>(call, b, h, cursor.tile_index() * tile, memory.other[0]);
  tensor_core::end_copy_group();
  WarpSums<dim> of_query;
  for (int stage = 0; cursor.any(); stage = 1 - stage) {
    const TilePlace at{b, h, query, cursor.tile_index() * tile, cursor.full()};
    cursor.next();
    if (cursor.any())
      begin_copy_keys<In, dim>(call, b, h, cursor.tile_index() * tile, memory.other[1 - stage]);
    tensor_core::end_copy_group();
    if (!is_plain(call, at.full)) {
      read_keys(call, at, *memory.keys);
      __syncthreads();
      read_bits(call, g.plan.mask, at, *memory.keys);
    }
    tensor_core::wait_for_copies<1>();
    __syncthreads();
    WarpSums<tile> scores, gradients;
    add_row_products<dim>(
        scores, [&](auto k) { return own_rows_of<dim>(memory.own[0], k); }, memory.other[stage][0]);
    add_row_products<dim>(
        gradients,
        [&](auto k) { return own_rows_of<dim>(memory.own[1], k); },
        memory.other[stage][1]);
    differentiate<false>(g, at, *memory.keys, memory.sums[0], memory.stage, scores, gradients);
    add_rows<dim>(of_query, gradients, memory.other[stage][0]);
    __syncthreads();  // the tile after the next one comes here
  }
  tensor_core::wait_for_copies<0>();
  of_query.each([&](int i, int c, float sum, int) {
    if (query + i < call.time)
      dquery.write(call.place(b, call.time, query + i, h, dim, c), call.scale * sum, g.add);
  });
}

template <typename In, int dim>
__global__ void __launch_bounds__(tile_threads)
    differentiate_keys(GradientCall<In> g, Either<In> dkey, Either<In> dvalue) {
  const AttentionCall<In>& call = g.call;
  const BackwardMemory<In, dim> memory;
  const BlockPlace block(call, g.head_begin, g.heads, g.plan.by_key.order);
  const std::int64_t b = block.b, h = block.h, key = block.tile_index * tile;
  TileCursor cursor(g.plan.by_key, block.tile_index);
  begin_copy_keys<In, dim>(call, b, h, key, memory.own);
  const auto begin_next = [&](int stage) {
    if (cursor.any()) {
      const std::int64_t first = cursor.tile_index() * tile;
      begin_copy_queries<In, dim>(g, b, h, first, memory.other[stage]);
      read_sums(g, b, h, first, memory.sums[stage]);
    }
    tensor_core::end_copy_group();
  };
  begin_next(0);
  WarpSums<dim> of_key, of_value;
  for (int stage = 0; cursor.any(); stage = 1 - stage) {
    const TilePlace at{b, h, cursor.tile_index() * tile, key, cursor.full()};
    cursor.next();
    begin_next(1 - stage);
    if (!is_plain(call, at.full)) {
      read_keys(call, at, *memory.keys);
      __syncthreads();
      read_bits(call, g.plan.mask, at, *memory.keys);
    }
    tensor_core::wait_for_copies<1>();
    __syncthreads();
    WarpSums<tile> scores, gradients;
    add_row_products<dim>(
        scores, [&](auto k) { return own_rows_of<dim>(memory.own[0], k); }, memory.other[stage][0]);
    add_row_products<dim>(
        gradients,
        [&](auto k) { return own_rows_of<dim>(memory.own[1], k); },
        memory.other[stage][1]);
    differentiate<true>(g, at, *memory.keys, memory.sums[stage], memory.stage, scores, gradients);
    add_rows<dim>(of_value, scores, memory.other[stage][1]);
    add_rows<dim>(of_key, gradients, memory.other[stage][0]);
    __syncthreads();  // the tile after the next one comes here
  }
  tensor_core::wait_for_copies<0>();
  of_key.each([&](int j, int c, float sum, int) {
    if (key + j < call.keys)
      dkey.write(call.place(b, call.keys, key + j, h, dim, c), call.scale * sum, g.add);
  });
  of_value.each([&](int j, int c, float sum, int) {
    if (key + j < call.keys) dvalue.write(call.place(b, call.keys, key + j, h, dim, c), sum, g.add);
  });
}

}  // namespace

template <typename In>
bool differentiate_with_matrices(Cuda cuda,
                                 const GradientCall<In>& g,
                                 const Either<In>& dquery,
                                 const Either<In>& dkey,
                                 const Either<In>& dvalue) {
  if (reinterpret_cast<std::uintptr_t>(g.dout) % 16 != 0) return false;
  return with_matrix_width(g.call, [&]<int dim>(std::integral_constant<int, dim>) {
    const auto grid = [&](std::int64_t tiles) {
      return Grid{.blocks = tiles * g.call.batch * g.heads,
                  .threads = tile_threads,
                  .shared_bytes = BackwardMemory<In, dim>::bytes};
    };
    launch(cuda, grid(g.call.query_tiles()), differentiate_queries<In, dim>, g, dquery);
    launch(cuda, grid(g.call.key_tiles()), differentiate_keys<In, dim>, g, dkey, dvalue);
  });
}

template bool differentiate_with_matrices(Cuda,
                                          const GradientCall<double>&,
                                          const Either<double>&,
                                          const Either<double>&,
                                          const Either<double>&);
template bool differentiate_with_matrices(Cuda,
                                          const GradientCall<float>&,
                                          const Either<float>&,
                                          const Either<float>&,
                                          const Either<float>&);
template bool differentiate_with_matrices(Cuda,
                                          const GradientCall<BFloat16>&,
                                          const Either<BFloat16>&,
                                          const Either<BFloat16>&,
                                          const Either<BFloat16>&);
template bool differentiate_with_matrices(Cuda,
                                          const GradientCall<Float16>&,
                                          const Either<Float16>&,
                                          const Either<Float16>&,
                                          const Either<Float16>&);

}  // namespace longspan::tile_attention
