// Forward pass on matrix units. A block has one query tile, or two adjacent ones, which share the
// copies of keys and values. If such a pair has a relative-position table, the rows of a warp are
// consecutive, and it reads their common table rows once. Copies overlap products: values are
// copied while keys are multiplied, and the next keys while values are multiplied.
#pragma once

#include "framework/kernels/attention/cuda/matrix_calls.h"
#include "framework/kernels/attention/cuda/matrix_terms.h"
#include "framework/kernels/attention/cuda/relative_band.h"

namespace longspan::tile_attention {

// Distance inside the span of the keys of a thread's elements.
class Insides {
 public:
  template <typename In>
  __device__ Insides(const AttentionCall<In>& call, const TilePosition& at)
      : distance_(call, at, 0) {
    for (int r = 0; r < 2; ++r) {
      const std::int64_t i = at.query + WarpSums<tile>::row(2 * r);
      const bool asked = call.span.z != nullptr && i < call.time;
      end_[r] = asked ? call.span.soft.end(call.span_of(at.b, at.h, i)) : 0;
    }
  }
  __device__ float operator()(auto n, auto s) const { return end_[s / 2] - distance_(n, s); }

 private:
  Distances<false> distance_;
  float end_[2];
};

// Online softmax state of the two rows of a thread, shared with three adjacent threads.
struct RunningRows {
  float maximum[2] = {minus_infinity<float>, minus_infinity<float>};  // in units of ln 2
  float sum[2] = {0, 0};                                              // of this thread's elements

  // Replaces scores, which `to_units` converts to units of ln 2, with lifted weights relative to
  // the new maxima, and rescales the previous sums. With `seldom`, rescales only if a maximum in
  // the warp has changed, which is rare after the first tiles.
  template <bool seldom, typename In, int dim>
  __device__ __forceinline__ void online_softmax_update(const AttentionCall<In>& call,
                                                        const Insides& inside,
                                                        float to_units,
                                                        WarpSums<tile>& scores,
                                                        WarpSums<dim>& out) {
    float largest[2] = {minus_infinity<float>, minus_infinity<float>};
    const SoftSpan<float>& soft = call.span.soft;
    if (call.span.z != nullptr) {
      // A key beyond the span contributes only floor to the sum. If its score were the maximum, the
      // other weights could underflow.
      const float of_floor = std::log2(soft.floor);  // such scores are in units of ln 2
      each_element<tile>([&](auto n, auto s) {
        const float score = scores.of[n][s];
        largest[s / 2] = Max()(largest[s / 2], inside(n, s) > 0 ? score : score + of_floor);
      });
    } else {
      scores.each([&](int, int, float score, int r) { largest[r] = Max()(largest[r], score); });
    }
    float against[2], shrink[2];
    bool changed = !seldom;
    for (int r = 0; r < 2; ++r) {
      for (int lanes = 1; lanes <= 2; lanes *= 2)
        largest[r] = Max()(largest[r], __shfl_xor_sync(all_lanes, largest[r], lanes));
      largest[r] = Max()(maximum[r], largest[r] * to_units);
      // In a row that has seen no key yet, all scores are -infinity and all probabilities 0.
      const float most = largest[r] == minus_infinity<float> ? 0 : largest[r];
      shrink[r] = tensor_core::power_of_two(maximum[r] - most);
      against[r] = most - lift<In>;
      changed = changed || largest[r] != maximum[r];
      maximum[r] = largest[r];
      sum[r] *= shrink[r];
    }
    scores.change([&](int, int, float score, int r) {
      return tensor_core::power_of_two(score * to_units - against[r]);
    });
    if (call.span.z != nullptr) {
      each_element<tile>([&](auto n, auto s) {
        const float power = scores.of[n][s], factor = soft.at(inside(n, s));
        sum[s / 2] += (factor + soft.floor) * power;
        scores.of[n][s] = factor * power;
      });
    } else {
      scores.each([&](int, int, float power, int r) { sum[r] += power; });
    }
    if (!seldom || __ballot_sync(all_lanes, changed) != 0)
      out.change([&](int, int, float element, int r) { return element * shrink[r]; });
  }
};

// Shared memory of a block with `count` query tiles. Buffers that only tables use are omitted for
// calls without a table.
template <typename Tile, int count>
struct ForwardMemory {
  using In = typename Tile::In;
  using BandOf = Band<In, Tile::dim, count + 1>;
  TileKeys* keys;  // one for each query tile
  float* stage;
  float* key_bias;
  unsigned char* rows;
  Tile key;
  Tile value;
  BandOf key_band;
  BandOf value_band;

  // Blocks with two tiles have no terms that need the stage.
  static constexpr std::size_t staged_bytes = count == 1 ? stage_bytes : 0;
  static constexpr std::size_t number_bytes =
      aligned_bytes<Tile>(count * sizeof(TileKeys) + staged_bytes + tile * sizeof(float));
  static constexpr std::size_t row_bytes = number_bytes + (count + 2) * Tile::bytes;
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
    stage = reinterpret_cast<float*>(at + count * sizeof(TileKeys));
    key_bias = stage + staged_bytes / sizeof(float);
    rows = at + number_bytes;
    key = nth_tile<Tile>(rows, count);
    value = nth_tile<Tile>(rows, count + 1);
  }
  __device__ Tile query(int q) const { return nth_tile<Tile>(rows, q); }
};

// Converts products to scores; returns their positive factor to units of ln 2.
template <typename In>
__device__ __forceinline__ float finish_scores(const AttentionCall<In>& call,
                                               const TilePosition& at,
                                               const TileKeys& keys,
                                               float* stage,
                                               const Insides& inside,
                                               WarpSums<tile>& scores) {
  const float to_units = call.scale * log2_of_e;
  if (!call.has_terms() && to_units > 0) {
    if (!is_plain(call, at.full)) hide_unseen<false>(keys, 0, scores);
    return to_units;
  }
  finish_scores<false>(call, at, keys, 0, stage, inside, scores);
  return 1;
}

template <typename In>
__device__ __forceinline__ void drop(const AttentionCall<In>& call,
                                     const TileKeys& keys,
                                     WarpSums<tile>& powers) {
  if (!call.dropout.active) return;
  each_bit<false, tile>(keys.kept, 0, [&](auto n, auto s, bool kept) {
    if (!kept) powers.of[n][s] = 0;
  });
}

// Whether calls with those terms may use blocks of two tiles.
template <Terms terms>
inline constexpr bool may_have_pairs = terms == Terms::none || terms == Terms::key_distances;

// Resident blocks for each multiprocessor, limited by the registers of their threads.
template <typename Tile, Terms terms, int count>
inline constexpr int forward_blocks = count == 2                               ? blocks_of_two_tiles
                                      : terms == Terms::none&& Tile::dim == 64 ? 3
                                                                               : 2;

// Whether sums are rescaled seldom: two tiles of wide heads lack the registers for it with warp
// products.
template <typename Tile, int count>
inline constexpr bool scaled_seldom = Tile::accumulates_products || count == 1 || Tile::dim <= 64;

template <typename Tile, Terms terms, int count>
__global__ void __launch_bounds__(tile_threads, forward_blocks<Tile, terms, count>)
    attend_matrices(const __grid_constant__ GroupCall<typename Tile::In> given) {
  using In = typename Tile::In;
  constexpr int dim = Tile::dim;
  static_assert(count == 1 || may_have_pairs<terms>);
  constexpr bool follow = count == 2 && may_have_tables<terms>;
  constexpr bool caches_features = count == 1 || follow;  // band products need them too
  using Part = PairPart<follow>;
  const GroupCall<In>& group = known<terms>(given);
  const AttentionCall<In>& call = group.call;
  const PlanView& plan = group.plan;
  const ForwardMemory<Tile, count> memory(call);
  const BlockPosition block(group, count == 1 ? plan.by_query.order : plan.by_query.pair_order);
  const std::int64_t b = block.b, h = block.h, first_tile = count * block.tile_index;
  const auto place = [&](int first, std::int64_t key_tile, TileKind kind) {
    return TilePosition{b, h, first_tile * tile + first, key_tile * tile, kind == TileKind::full};
  };
  // The last query position with a lookback to a key tile, over all query tiles of the block.
  const auto last_position = [&](std::int64_t key_tile) {
    return place((count - 1) * tile, key_tile, TileKind::partial);
  };
  TileCursors<count> cursors(call, plan.by_query, b, first_tile);
  std::int64_t kept = no_half, cached_values = no_half;  // of bands
  const auto start_next_keys = [&] {
    if (cursors.any()) {
      const TilePosition at = last_position(cursors.tile_index());
      start_copy_keys(memory.key, call.key, call, b, h, at.key);
      if (call.key_bias != nullptr)
        start_copy_numbers(memory.key_bias, call.key_bias + call.key_bias_index(b, h, at.key));
      if (call.key_table) {
        memory.key_band.start_copy(call, call.key_table, call.distance_bias, at, kept);
        kept = first_half_of(at);
      }
    }
    tensor_core::end_copy_group();
  };
  unrolled<count>([&](auto q) {
    start_copy_queries(memory.query(q), call.query, call, b, h, (first_tile + q) * tile);
  });
  start_next_keys();
  Pairs features[count][dim / 16];
  if constexpr (caches_features) {
    tensor_core::wait_for_copies<0>();
    __syncthreads();
    unrolled<count>([&](auto q) {
      const Tile rows = memory.query(0).from(Part::begin(q));
      unrolled<dim / 16>([&](auto k) { features[q][k] = warp_rows_of(rows, k); });
    });
  }
  const auto own = [&](auto q) {
    if constexpr (caches_features)
      return [&features, q](auto k) { return features[q][k]; };
    else
      return memory.query(q);
  };
  WarpSums<dim> out[count];
  RunningRows running[count];
  while (cursors.any()) {
    const std::int64_t key_tile = cursors.tile_index();
    TileKind of_tiles[count], kinds[count];
    bool any_looked_at = false;
    unrolled<count>([&](auto q) {
      of_tiles[q] =
          within_reach(call, b, (first_tile + q) * tile, key_tile * tile, cursors.kind(q));
      any_looked_at = any_looked_at || is_looked_at(call, of_tiles[q]);
    });
    unrolled<count>([&](auto q) { kinds[q] = Part::of_tile(of_tiles, q); });
    const auto at = [&](auto q) { return place(Part::begin(q), key_tile, kinds[q]); };
    cursors.next(plan.by_query);
    wait_for_rows<Tile, 0>();
    __syncthreads();  // keys have arrived; the previous values may be overwritten
    start_copy_keys(memory.value, call.value, call, b, h, key_tile * tile);
    if (call.value_table) {
      const TilePosition of_last = last_position(key_tile);
      memory.value_band.start_copy(call, call.value_table, nullptr, of_last, cached_values);
      cached_values = first_half_of(of_last);
    }
    tensor_core::end_copy_group();
    read_masks(call, plan.mask, any_looked_at, kinds, at, memory.keys);
    WarpSums<tile> scores[count];
    with_visitors<follow>(
        kinds, [&](auto... q) __attribute__((always_inline)) {
          if constexpr (may_have_tables<terms>) {
            const auto bias = [&](int, int j, float, int) { return memory.key_bias[j]; };
            if (call.key_bias != nullptr) (scores[q].change(bias), ...);
            const auto add_distances = [&](auto i) {
              memory.key_band.add_products(scores[i], own(i), at(i));
            };
            if constexpr (follow)
              memory.key_band.add_products_of_pair(scores, own, last_position(key_tile));
            else if (call.key_table)
              (add_distances(q), ...);
          }
          Tile::begin(scores[q]...);
          multiply_rows(memory.key, Product{scores[q], own(q)}...);
          Tile::finish(scores[q]...);
        });
    wait_for_rows<Tile, 0>();
    __syncthreads();  // values have arrived; the keys may be overwritten
    start_next_keys();
    with_visitors<follow>(
        kinds, [&](auto... q) __attribute__((always_inline)) {
          const auto weigh = [&](auto i) __attribute__((always_inline)) {
            const TileKeys& keys = memory.keys[i];
            const Insides inside(call, at(i));
            const float to_units =
                finish_scores(call, at(i), keys, memory.stage, inside, scores[i]);
            running[i].template online_softmax_update<scaled_seldom<Tile, count>>(
                call, inside, to_units, scores[i], out[i]);
            drop(call, keys, scores[i]);
          };
          if constexpr (Tile::accumulates_products) {
            const auto weigh_and_sum = [&](auto i) __attribute__((always_inline)) {
              weigh(i);
              Tile::begin(out[i]);
              sum_rows(memory.value, Product{out[i], scores[i]});
            };
            (weigh_and_sum(q), ...);
          } else {
            (weigh(q), ...);
            sum_rows(memory.value, Product{out[q], scores[q]}...);
          }
          Tile::finish(out[q]...);
          const auto add_distances = [&](auto i) {
            if (call.value_table)
              add_rows<In>(memory.value_band.rows(at(i)),
                           Product{out[i], unshifted(rounded<In>(scores[i]))});
          };
          if constexpr (terms == Terms::any) (add_distances(q), ...);
        });
  }
  tensor_core::wait_for_copies<0>();
  unrolled<count>([&](auto q) {
    const std::int64_t query = first_tile * tile + Part::begin(q);
    float inverse[2];
    for (int r = 0; r < 2; ++r) {
      float total = running[q].sum[r];
      for (int lanes = 1; lanes <= 2; lanes *= 2) total += __shfl_xor_sync(all_lanes, total, lanes);
      inverse[r] = total != 0 ? call.dropout.factor / total : 0;
      const std::int64_t i = query + WarpSums<dim>::row(2 * r);
      if (threadIdx.x % 4 == 0 && i < call.time)
        call.log_sum_exp[(b * call.heads + h) * call.time + i] =
            total != 0 ? running[q].maximum[r] / log2_of_e + std::log(total * unlifted<In>)
                       : minus_infinity<float>;
    }
    Either<In> to;
    to.narrow = call.out;
    write_rows(to, call, b, h, call.time, query, out[q], inverse, false);
  });
}

// For calls with at most those terms.
template <typename Tile, Terms most>
void launch_forward(Cuda cuda, const GroupCall<typename Tile::In>& group) {
  const auto& call = group.call;
  with_terms<Tile, most>(call, [&]<Terms terms>() {
    const auto start = [&]<int count>(std::integral_constant<int, count>) {
      launch(cuda,
             {.blocks = (call.query_tiles() + count - 1) / count * group.pairs(),
              .threads = tile_threads,
              .shared_bytes = ForwardMemory<Tile, count>::bytes(call)},
             attend_matrices<Tile, terms, count>,
             group);
    };
    if constexpr (may_have_pairs<terms>)
      if (uses_two_tiles(cuda, group)) return start(std::integral_constant<int, 2>());
    start(std::integral_constant<int, 1>());
  });
}

}  // namespace longspan::tile_attention
