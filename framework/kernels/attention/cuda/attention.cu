// Forward pass for any dtype and width (tensor_core.cu has the one on matrix units). A block has
// one query tile of one batch row and head, and 64 features of the output. It visits the key tiles
// that the plan lists and maintains the running maximum and sum of each row.
#include "framework/kernels/attention/cuda/matrix_calls.h"

namespace longspan {
namespace tile_attention {
namespace {

// Online softmax state shared by the two adjacent threads of a row.
template <typename T>
struct RunningRow {
  T maximum = minus_infinity<T>;
  T sum = 0;  // of this thread's elements

  // Converts the scores of a tile to probabilities relative to the new maximum. Returns the factor
  // by which to rescale previous outputs and sums.
  template <typename In>
  __device__ T online_softmax_update(const TileRow<In>& row, T* scores) {
    const int half = static_cast<int>(threadIdx.x) % 2;
    T largest = minus_infinity<T>;
    for (int j = half; j < tile; j += 2) {
      scores[j] = row.score(j, scores[j]);
      largest = Max()(largest, scores[j]);
    }
    largest = Max()(largest, __shfl_xor_sync(all_lanes, largest, 1));
    const T before = maximum;
    maximum = Max()(before, largest);
    // In a row that has seen no key yet, all scores are -infinity and all probabilities 0.
    const T against = maximum == minus_infinity<T> ? T{0} : maximum;
    const T shrink = std::exp(before - against);
    sum *= shrink;
    row.each([&](int j, T keep) {
      T power = std::exp(scores[j] - against);
      if (row.call.span.z != nullptr) {
        const T soft = row.soft(j);
        sum += (soft + row.call.span.soft.floor) * power;
        power *= soft;
      } else {
        sum += power;
      }
      scores[j] = power * keep;
    });
    return shrink;
  }
};

template <typename In>
__global__ void attend(GroupCall<In> group) {
  using T = Accumulator<In>;
  const AttentionCall<In>& call = group.call;
  const PlanView& plan = group.plan;
  const TileMemory<T> memory;
  const BlockPosition block(group, plan.by_query.order, slices_of(call.value_dim));
  const std::int64_t b = block.b, h = block.h, query_tile = block.tile_index;
  const int first = block.first;
  const int row = static_cast<int>(threadIdx.x) / 2;
  Sums<T> out;
  RunningRow<T> running;
  for_key_tiles(call, plan.by_query, b, query_tile, [&](std::int64_t key_tile, bool full) {
    const TilePosition at{b, h, query_tile * tile, key_tile * tile, full};
    const TileRows<In> rows{call, at, *memory.keys};
    read_scores(call, plan.mask, at, memory);
    __syncthreads();
    const T shrink = running.online_softmax_update(TileRow<In>(call, at, *memory.keys, row),
                                                   memory.first + row * tile_step);
    if (threadIdx.x % 2 == 0) memory.rows[row] = shrink;
    fill_rows<tile>(memory.stage, tile, tile_step, [&](int j, int c) {
      return first + c < call.value_dim ? rows.value(j, first + c) : T{0};
    });
    __syncthreads();
    out.each([&](int i, int, T& sum) { sum *= memory.rows[i]; });
    add_product(
        out,
        tile,
        [&](int i, int j) { return memory.first[i * tile_step + j]; },
        [&](int j, int c) { return memory.stage[j * tile_step + c]; });
    if (call.value_table)
      add_distance_rows(
          out, call.value_table, h, origin_of(call, at), memory.first, memory.stage, first);
  });
  const T total = running.sum + __shfl_xor_sync(all_lanes, running.sum, 1);
  __syncthreads();
  if (threadIdx.x % 2 == 0) memory.rows[row] = total != 0 ? 1 / total : T{0};
  __syncthreads();
  const std::int64_t query = query_tile * tile;
  if (first == 0 && threadIdx.x % 2 == 0 && query + row < call.time)
    call.log_sum_exp[(b * call.heads + h) * call.time + query + row] =
        total != 0 ? running.maximum + std::log(total) : minus_infinity<T>;
  out.each([&](int i, int c, T sum) {
    if (query + i < call.time && first + c < call.value_dim)
      put(call.out[call.place(b, call.time, query + i, h, call.value_dim, first + c)],
          sum * memory.rows[i]);
  });
}

template <typename In>
void run_forward(Cuda cuda, const Attention& a, const ExternalScores& given) {
  AttentionCall<In> call(a, given);
  const bool with_matrices = uses_tensor_cores(call);
  BiasProducts biases;
  if constexpr (sizeof(In) == 2)
    if (with_matrices) biases = multiply_biases(cuda, a.query.device(), call);
  for (const HeadGroup& group : head_groups(a)) {
    const GroupCall<In> of_group = {
        call, plan_view(cuda, group.plan, false), group.begin, group.count};
    if constexpr (sizeof(In) == 2)
      if (with_matrices) {
        attend_with_matrices(cuda, of_group);
        continue;
      }
    launch(cuda,
           {.blocks = call.query_tiles() * call.batch * group.count * slices_of(call.value_dim),
            .threads = tile_threads,
            .shared_bytes = TileMemory<Accumulator<In>>::bytes(false)},
           attend<In>,
           of_group);
  }
}

}  // namespace
}  // namespace tile_attention

bool attends_by_warp_groups(Cuda cuda, const Attention& a) {
  bool result = false;
  with_floating_type(a.query.dtype(), [&]<typename In>(TypeTag<In>) {
    const tile_attention::AttentionCall<In> call(a);
    result = tile_attention::uses_tensor_cores(call) && tile_attention::uses_warpgroups(cuda, call);
  });
  return result;
}

void attention(Cuda cuda, const Attention& a) { attention(cuda, a, ExternalScores()); }

void attention(Cuda cuda, const Attention& a, const ExternalScores& given) {
  tile_attention::check(a);
  tile_attention::check(a, given);
  if (cuda.state->is_meta())
    cuda.state->count_flops(attention_flops(a) + tile_attention::external_score_flops(a, given));
  with_floating_type(a.query.dtype(), [&]<typename In>(TypeTag<In>) {
    tile_attention::run_forward<In>(cuda, a, given);
  });
}

}  // namespace longspan
