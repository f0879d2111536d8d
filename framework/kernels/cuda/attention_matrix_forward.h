// The forward pass on matrix units. While a tile's keys are multiplied its values are copied, and
// while its values are the keys of the next one.
#pragma once

#include "framework/kernels/cuda/attention_band.h"
#include "framework/kernels/cuda/attention_matrix_calls.h"

namespace longspan::tile_attention {

// The factors of a soft span for the two rows that a thread has elements of.
struct SoftRows {
  SoftSpan<float> soft;
  float z[2];
  float distance[2];  // of the row from the tile's first key

  template <typename In>
  __device__ SoftRows(const AttentionCall<In>& call, const TilePlace& at) : soft(call.span.soft) {
    for (int r = 0; r < 2; ++r) {
      const int i = WarpSums<tile>::row(2 * r);
      const bool real = at.query + i < call.time;
      z[r] = real ? call.span_of(at.b, at.h, at.query + i) : 0;
      distance[r] = static_cast<float>(origin_of(call, at) + i);
    }
  }
  // Rounded as where it is decided which keys count.
  __device__ float at(int r, int j) const {
    return soft.at(z[r], distance[r] - static_cast<float>(j));
  }
};

// The two rows that a thread has elements of, with three neighbours.
struct RunningRows {
  float maximum[2] = {minus_infinity<float>, minus_infinity<float>};  // in units of ln 2
  float sum[2] = {0, 0};                                              // of this thread's elements

  // Scores become lifted weights against the new maxima; what was summed before is scaled.
  template <typename In, int dim>
  __device__ __forceinline__ void soften(const AttentionCall<In>& call,
                                         const TilePlace& at,
                                         WarpSums<tile>& scores,
                                         WarpSums<dim>& out) {
    float largest[2] = {maximum[0], maximum[1]};
    if (call.span.z != nullptr) {
      // Beyond the span a key has a part of the sum alone: were it the maximum by its score, what
      // the others weigh might vanish beside it.
      const SoftRows rows(call, at);
      const float of_floor = std::log2(rows.soft.floor);
      scores.each([&](int, int j, float score, int r) {
        largest[r] = Greater()(largest[r], rows.at(r, j) > 0 ? score : score + of_floor);
      });
    } else {
      scores.each([&](int, int, float score, int r) { largest[r] = Greater()(largest[r], score); });
    }
    float against[2], shrink[2];
    for (int r = 0; r < 2; ++r) {
      for (int lanes = 1; lanes <= 2; lanes *= 2)
        largest[r] = Greater()(largest[r], __shfl_xor_sync(all_lanes, largest[r], lanes));
      // A row that has seen no key yet: its scores are all -infinity, its probabilities 0.
      const float most = largest[r] == minus_infinity<float> ? 0 : largest[r];
      shrink[r] = tensor_core::power_of_two(maximum[r] - most);
      against[r] = most - lift<In>;
      maximum[r] = largest[r];
      sum[r] *= shrink[r];
    }
    scores.change([&](int, int, float score, int r) {
      return tensor_core::power_of_two(score - against[r]);
    });
    if (call.span.z != nullptr) {
      const SoftRows rows(call, at);
      scores.change([&](int, int j, float power, int r) {
        const float soft = rows.at(r, j);
        sum[r] += (soft + rows.soft.floor) * power;
        return soft * power;
      });
    } else {
      scores.each([&](int, int, float power, int r) { sum[r] += power; });
    }
    out.change([&](int, int, float element, int r) { return element * shrink[r]; });
  }
};

// The shared memory of a block: what a call without a table does not need is left out.
template <typename Tile>
struct ForwardMemory {
  using In = typename Tile::In;
  using BandOf = Band<In, Tile::dim>;
  TileKeys* keys;
  float* stage;
  float* key_bias;
  Tile query;
  Tile key;
  Tile value;
  BandOf key_band;
  BandOf value_band;

  static constexpr std::size_t number_bytes =
      aligned_bytes<Tile>(sizeof(TileKeys) + stage_bytes + tile * sizeof(float));
  static constexpr std::size_t row_bytes = number_bytes + 3 * Tile::bytes;
  static std::size_t bytes(const AttentionCall<In>& call) {
    const std::size_t bands = (call.key_table ? 1U : 0U) + (call.value_table ? 1U : 0U);
    return row_bytes + bands * BandOf::bytes;
  }

  __device__ explicit ForwardMemory(const AttentionCall<In>& call)
      : key_band(shared_memory<unsigned char>() + row_bytes),
        value_band(shared_memory<unsigned char>() + row_bytes +
                   (call.key_table ? BandOf::bytes : 0)) {
    auto* at = shared_memory<unsigned char>();
    keys = reinterpret_cast<TileKeys*>(at);
    stage = reinterpret_cast<float*>(at + sizeof(TileKeys));
    key_bias = stage + tile * stage_step;
    query = {reinterpret_cast<In*>(at + number_bytes)};
    key = {reinterpret_cast<In*>(at + number_bytes + Tile::bytes)};
    value = {reinterpret_cast<In*>(at + number_bytes + 2 * Tile::bytes)};
  }
};

// Products become scores in units of ln 2.
template <typename In>
__device__ __forceinline__ void finish_scores(const AttentionCall<In>& call,
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
__device__ __forceinline__ void drop(const AttentionCall<In>& call,
                                     const TilePlace& at,
                                     float* stage,
                                     WarpSums<tile>& powers) {
  if (!call.dropout.active) return;
  Draws<float> draws;
  change_by_stage(powers, stage, [&](int i, int j, float power) {
    return keep_of(call, at, draws, i, j) != 0 ? power : 0;
  });
}

// Blocks of a multiprocessor, by the registers of their threads.
template <typename Tile, Terms terms>
inline constexpr int forward_blocks = terms == Terms::none&& Tile::dim == 64 ? 3 : 2;

template <typename Tile, Terms terms>
__global__ void __launch_bounds__(tile_threads, forward_blocks<Tile, terms>)
    attend_matrices(const __grid_constant__ GroupCall<typename Tile::In> given) {
  using In = typename Tile::In;
  constexpr int dim = Tile::dim;
  const GroupCall<In>& group = known<terms>(given);
  const AttentionCall<In>& call = group.call;
  const PlanView& plan = group.plan;
  const ForwardMemory<Tile> memory(call);
  const BlockPlace block(group, plan.by_query);
  const std::int64_t b = block.b, h = block.h, query = block.tile_index * tile;
  TileCursor cursor(plan.by_query, block.tile_index);
  std::int64_t kept = no_half, kept_values = no_half;  // of bands
  const auto begin_next_keys = [&] {
    if (cursor.any()) {
      const TilePlace at{b, h, query, cursor.tile_index() * tile, false};
      begin_copy_keys(memory.key, call.key, call, b, h, at.key);
      if (call.key_bias != nullptr)
        begin_copy_numbers(memory.key_bias, call.key_bias + call.key_bias_place(b, h, at.key));
      if (call.key_table) {
        memory.key_band.begin_copy(call, call.key_table, call.distance_bias, at, kept);
        kept = first_half_of(at) + 1;
      }
    }
    tensor_core::end_copy_group();
  };
  begin_copy_queries(memory.query, call.query, call, b, h, query);
  begin_next_keys();
  tensor_core::wait_for_copies<0>();
  __syncthreads();
  Pairs own[dim / 16];
  unrolled<dim / 16>([&](auto k) { own[k] = own_rows_of(memory.query, k); });
  const auto own_features = [&](auto k) { return own[k]; };
  WarpSums<dim> out;
  RunningRows running;
  while (cursor.any()) {
    const TilePlace at{b, h, query, cursor.tile_index() * tile, cursor.full()};
    cursor.next();
    wait_for_rows<Tile, 0>();
    __syncthreads();  // the keys are here, and the last values are not needed any more
    begin_copy_keys(memory.value, call.value, call, b, h, at.key);
    if (call.value_table) {
      memory.value_band.begin_copy(call, call.value_table, nullptr, at, kept_values);
      kept_values = first_half_of(at) + 1;
    }
    tensor_core::end_copy_group();
    if (!is_plain(call, at.full)) {
      read_keys(call, at, *memory.keys);
      __syncthreads();
      read_bits(call, plan.mask, at, *memory.keys);
    }
    WarpSums<tile> scores;
    if (call.key_table) memory.key_band.add_products(scores, own_features, at);
    if (call.key_bias != nullptr)
      scores.change([&](int, int j, float sum, int) { return sum + memory.key_bias[j]; });
    Tile::begin(scores);
    multiply_rows(scores, own_features, memory.key);
    Tile::finish(scores);
    wait_for_rows<Tile, 0>();
    __syncthreads();  // the values are here, and the keys are not needed any more
    begin_next_keys();
    finish_scores(call, at, *memory.keys, memory.stage, scores);
    running.soften(call, at, scores, out);
    drop(call, at, memory.stage, scores);
    Tile::begin(out);
    sum_rows(out, scores, memory.value);
    Tile::finish(out);
    if (call.value_table) add_rows<In>(out, unshifted(scores), memory.value_band.rows(at));
  }
  tensor_core::wait_for_copies<0>();
  float inverse[2];
  for (int r = 0; r < 2; ++r) {
    float total = running.sum[r];
    for (int lanes = 1; lanes <= 2; lanes *= 2) total += __shfl_xor_sync(all_lanes, total, lanes);
    inverse[r] = total != 0 ? call.dropout.factor / total : 0;
    const std::int64_t i = query + WarpSums<dim>::row(2 * r);
    if (threadIdx.x % 4 == 0 && i < call.time)
      call.log_sum_exp[(b * call.heads + h) * call.time + i] =
          total != 0 ? running.maximum[r] / log2_of_e + std::log(total * unlifted<In>)
                     : minus_infinity<float>;
  }
  out.each([&](int i, int c, float sum, int r) {
    if (query + i < call.time)
      put(call.out[call.place(b, call.time, query + i, h, dim, c)], sum * inverse[r]);
  });
}

// For calls that have at most those terms.
template <typename Tile, Terms most>
void launch_forward(Cuda cuda, const GroupCall<typename Tile::In>& group) {
  const auto& call = group.call;
  with_terms<Tile, most>(call, [&]<Terms terms>() {
    launch(cuda,
           {.blocks = call.query_tiles() * call.batch * group.heads,
            .threads = tile_threads,
            .shared_bytes = ForwardMemory<Tile>::bytes(call)},
           attend_matrices<Tile, terms>,
           group);
  });
}

}  // namespace longspan::tile_attention
