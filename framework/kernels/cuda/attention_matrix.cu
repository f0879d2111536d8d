// The forward pass on matrix units. While a tile of keys and values is used the next one is copied.
#include "framework/kernels/cuda/attention_matrix.h"

namespace longspan::tile_attention {
namespace {

// The two rows that a thread has elements of, with three neighbours.
struct RunningRows {
  float maximum[2] = {minus_infinity<float>, minus_infinity<float>};  // in units of ln 2
  float sum[2] = {0, 0};                                              // of this thread's elements

  // Scores become probabilities against the new maxima; what was summed before is scaled.
  template <int dim>
  __device__ void soften(WarpSums<tile>& scores, WarpSums<dim>& out) {
    float largest[2] = {maximum[0], maximum[1]};
    scores.each([&](int, int, float score, int r) { largest[r] = Greater()(largest[r], score); });
    float against[2], shrink[2];
    for (int r = 0; r < 2; ++r) {
      for (int lanes = 1; lanes <= 2; lanes *= 2)
        largest[r] = Greater()(largest[r], __shfl_xor_sync(all_lanes, largest[r], lanes));
      // A row that has seen no key yet: its scores are all -infinity, its probabilities 0.
      against[r] = largest[r] == minus_infinity<float> ? 0 : largest[r];
      shrink[r] = tensor_core::power_of_two(maximum[r] - against[r]);
      maximum[r] = largest[r];
      sum[r] *= shrink[r];
    }
    scores.change([&](int, int, float score, int r) {
      const float power = tensor_core::power_of_two(score - against[r]);
      sum[r] += power;
      return power;
    });
    out.change([&](int, int, float element, int r) { return element * shrink[r]; });
  }
};

template <typename In, int dim>
struct ForwardMemory {
  TileKeys* keys;
  float* stage;
  In* query;
  In* key[2];
  In* value[2];

  static constexpr std::size_t bytes = sizeof(TileKeys) + stage_bytes + 5 * matrix_bytes<dim>;

  __device__ ForwardMemory() {
    auto* at = shared_memory<unsigned char>();
    keys = reinterpret_cast<TileKeys*>(at);
    stage = reinterpret_cast<float*>(at + sizeof(TileKeys));
    at += sizeof(TileKeys) + stage_bytes;
    const auto take = [&] {
      In* const taken = reinterpret_cast<In*>(at);
      at += matrix_bytes<dim>;
      return taken;
    };
    query = take();
    for (int i = 0; i < 2; ++i) {
      key[i] = take();
      value[i] = take();
    }
  }
};

template <typename In, int dim>
__device__ void begin_copy_keys(const AttentionCall<In>& call,
                                std::int64_t b,
                                std::int64_t h,
                                std::int64_t first,
                                In* key,
                                In* value) {
  const std::int64_t place = call.place(b, call.keys, first, h, dim, 0);
  const auto real = [&](int j) { return call.is_key(b, h, first + j); };
  begin_copy_rows<dim>(key, call.key + place, call.heads * dim, real);
  begin_copy_rows<dim>(value, call.value + place, call.heads * dim, real);
}

// Products become scores in units of ln 2.
template <typename In>
__device__ void finish_scores(const AttentionCall<In>& call,
                              const TilePlace& at,
                              const TileKeys& keys,
                              float* stage,
                              WarpSums<tile>& scores) {
  if (is_plain(call, at.full)) {
    const float factor = call.scale * log2_of_e;
    scores.change([=](int, int, float score, int) { return score * factor; });
    return;
  }
  const TileRow<In> row(call, at, keys, static_cast<int>(threadIdx.x) / 2);
  change_by_stage(
      scores, stage, [&](int, int j, float product) { return row.score(j, product) * log2_of_e; });
}

template <typename In>
__device__ void drop(const AttentionCall<In>& call,
                     const TilePlace& at,
                     float* stage,
                     WarpSums<tile>& powers) {
  if (!call.dropout.active) return;
  Draws<float> draws;
  change_by_stage(powers, stage, [&](int i, int j, float power) {
    return power * keep_of(call, at, draws, i, j);
  });
}

template <typename In, int dim>
__global__ void __launch_bounds__(tile_threads) attend_matrices(AttentionCall<In> call,
                                                                PlanView plan,
                                                                std::int64_t head_begin,
                                                                std::int64_t heads) {
  const ForwardMemory<In, dim> memory;
  const BlockPlace block(call, head_begin, heads, plan.by_query.order);
  const std::int64_t b = block.b, h = block.h, query = block.tile_index * tile;
  TileCursor cursor(plan.by_query, block.tile_index);
  begin_copy_rows<dim>(memory.query,
                       call.query + call.place(b, call.time, query, h, dim, 0),
                       call.heads * dim,
                       [&](int i) { return query + i < call.time; });
  if (cursor.any())
    begin_copy_keys<In, dim>(
        call, b, h, cursor.tile_index() * tile, memory.key[0], memory.value[0]);
  tensor_core::end_copy_group();
  tensor_core::wait_for_copies<0>();
  __syncthreads();
  Pairs own[dim / 16];
  unrolled<dim / 16>([&](auto k) { own[k] = own_rows_of<dim>(memory.query, k); });
  WarpSums<dim> out;
  RunningRows running;
  for (int stage = 0; cursor.any(); stage = 1 - stage) {
    const TilePlace at{b, h, query, cursor.tile_index() * tile, cursor.full()};
    cursor.next();
    if (cursor.any())
      begin_copy_keys<In, dim>(
          call, b, h, cursor.tile_index() * tile, memory.key[1 - stage], memory.value[1 - stage]);
    tensor_core::end_copy_group();
    if (!is_plain(call, at.full)) {
      read_keys(call, at, *memory.keys);
      __syncthreads();
      read_bits(call, plan.mask, at, *memory.keys);
    }
    tensor_core::wait_for_copies<1>();
    __syncthreads();
    WarpSums<tile> scores;
    add_row_products<dim>(
        scores, [&](auto k) { return own[k]; }, memory.key[stage]);
    finish_scores(call, at, *memory.keys, memory.stage, scores);
    running.soften(scores, out);
    drop(call, at, memory.stage, scores);
    add_rows<dim>(out, scores, memory.value[stage]);
    __syncthreads();  // the tile after the next one comes here
  }
  float inverse[2];
  for (int r = 0; r < 2; ++r) {
    float total = running.sum[r];
    for (int lanes = 1; lanes <= 2; lanes *= 2) total += __shfl_xor_sync(all_lanes, total, lanes);
    inverse[r] = total != 0 ? 1 / total : 0;
    const std::int64_t i = query + WarpSums<dim>::row(2 * r);
    if (threadIdx.x % 4 == 0 && i < call.time)
      call.log_sum_exp[(b * call.heads + h) * call.time + i] =
          total != 0 ? running.maximum[r] / log2_of_e + std::log(total) : minus_infinity<float>;
  }
  out.each([&](int i, int c, float sum, int r) {
    if (query + i < call.time)
      put(call.out[call.place(b, call.time, query + i, h, dim, c)], sum * inverse[r]);
  });
}

}  // namespace

template <typename In>
bool attend_with_matrices(Cuda cuda,
                          const AttentionCall<In>& call,
                          const PlanView& plan,
                          std::int64_t head_begin,
                          std::int64_t heads) {
  return with_matrix_width(call, [&]<int dim>(std::integral_constant<int, dim>) {
    launch(cuda,
           {.blocks = call.query_tiles() * call.batch * heads,
            .threads = tile_threads,
            .shared_bytes = ForwardMemory<In, dim>::bytes},
           attend_matrices<In, dim>,
           call,
           plan,
           head_begin,
           heads);
  });
}

template bool attend_with_matrices(
    Cuda, const AttentionCall<double>&, const PlanView&, std::int64_t, std::int64_t);
template bool attend_with_matrices(
    Cuda, const AttentionCall<float>&, const PlanView&, std::int64_t, std::int64_t);
template bool attend_with_matrices(
    Cuda, const AttentionCall<BFloat16>&, const PlanView&, std::int64_t, std::int64_t);
template bool attend_with_matrices(
    Cuda, const AttentionCall<Float16>&, const PlanView&, std::int64_t, std::int64_t);

}  // namespace longspan::tile_attention
