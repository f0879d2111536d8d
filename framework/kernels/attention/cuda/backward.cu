// Backward pass for any dtype and width (matrix_backward.cu has the one on matrix units). Blocks of
// query tiles write the query gradient, blocks of key tiles the key and value gradients. One block
// computes each element's sum, so that no sum depends on the order of blocks.
#include "framework/kernels/attention/check.h"
#include "framework/kernels/attention/cuda/matrix_calls.h"
#include "framework/kernels/attention/cuda/pair_ranges.h"
#include "framework/kernels/attention/cuda/row_products.h"
#include "framework/kernels/attention/key_gradients.h"

namespace longspan {
namespace tile_attention {
namespace {

// delta[b, h, i] = dout . out, whose rows are [batch, time, heads].
template <typename In>
struct Deltas {
  std::uint32_t heads;
  std::uint32_t time;
  int width;
  const In* out;
  const In* dout;
  Accumulator<In>* delta;

  __device__ const In* row(std::uint32_t n) const { return out + std::int64_t{n} * width; }
  __device__ Vec4<In> others(std::uint32_t n, int c) const {
    return read_four(dout + std::int64_t{n} * width, c, width);
  }
  __device__ Accumulator<In>& to(std::uint32_t n) const {
    const std::uint32_t h = n % heads, i = n / heads % time, b = n / heads / time;
    return delta[(std::int64_t{b} * heads + h) * time + i];
  }
};

// to[c] = the sum over the rows of the block's values.
template <typename T>
__device__ void sum_rows(Sums<T>& sums, T* stage, int columns, T* to) {
  __syncthreads();
  sums.write(stage);
  __syncthreads();
  const int c = static_cast<int>(threadIdx.x);
  if (c >= columns) return;
  T sum = 0;
  for (int i = 0; i < tile; ++i) sum += stage[i * tile_step + c];
  to[c] = sum;
}

// Adds the contributions of a tile's score gradients to the gradients of low and high; the two
// threads that share a row process it.
template <typename In>
__device__ void add_factor_gradients(const AttentionCall<In>& call,
                                     const TilePosition& at,
                                     const Accumulator<In>* dscores,
                                     const GivenGradients<Accumulator<In>>& to) {
  using T = Accumulator<In>;
  const GivenView<In>& given = call.given;
  const int i = static_cast<int>(threadIdx.x) / 2;
  if (at.query + i >= call.time) return;
  const std::int64_t row = (at.b * call.time + at.query + i) * call.heads + at.h;
  const bool of_low = threadIdx.x % 2 == 0;
  for (int j = 0; j < tile && at.key + j < call.keys; ++j) {
    const T dscore = dscores[i * tile_step + j];
    const std::int64_t position = call.key_begin + at.key + j;
    const std::int64_t low = row * given.lows + position % given.lows;
    const std::int64_t high = row * given.highs + position / given.lows;
    if (of_low)
      to.low[low] += dscore * wide(given.high[high]);
    else
      to.high[high] += dscore * wide(given.low[low]);
  }
}

// Gradient of the rows of given scores, which all batch rows share: a block processes a query tile
// of one head in all of them.
template <typename In>
__global__ void differentiate_rows(GradientCall<In> g, Accumulator<In>* drow) {
  using T = Accumulator<In>;
  const AttentionCall<In>& call = g.call;
  const TileMemory<T> memory;
  const std::int64_t query_tile = blockIdx.x / g.heads, query = query_tile * tile;
  const std::int64_t h = g.head_begin + blockIdx.x % g.heads;
  for (std::int64_t b = g.row_begin; b < g.row_begin + g.rows; ++b)
    for_key_tiles(call, g.plan.by_query, b, query_tile, [&](std::int64_t key_tile, bool full) {
      const TilePosition at{b, h, query, key_tile * tile, full};
      read_gradients(g, at, memory);
      for (int e = static_cast<int>(threadIdx.x); e < tile * tile; e += tile_threads) {
        const int i = e / tile, j = e % tile;
        if (query + i < call.time && at.key + j < call.keys)
          drow[((query + i) * call.heads + h) * call.given.positions + call.key_begin + at.key +
               j] += memory.second[i * tile_step + j];
      }
    });
}

template <typename In>
__global__ void differentiate_queries(GradientCall<In> g,
                                      Either<In> dquery,
                                      BackwardParts<Accumulator<In>> parts,
                                      GivenGradients<Accumulator<In>> given) {
  using T = Accumulator<In>;
  const AttentionCall<In>& call = g.call;
  const TileMemory<T> memory;
  const BlockPosition block(g, g.plan.by_query.order, slices_of(call.dim));
  const std::int64_t b = block.b, h = block.h, query_tile = block.tile_index;
  const int first = block.first;
  const std::int64_t query = query_tile * tile;
  Sums<T> content, position;
  T dspan = 0;
  for_key_tiles(call, g.plan.by_query, b, query_tile, [&](std::int64_t key_tile, bool full) {
    const TilePosition at{b, h, query, key_tile * tile, full};
    const TileRows<In> rows{call, at, *memory.keys};
    dspan += read_gradients(g, at, memory);
    if (given.low != nullptr && first == 0) add_factor_gradients(call, at, memory.second, given);
    fill_rows<tile>(memory.stage, tile, tile_step, [&](int j, int c) {
      return first + c < call.dim ? rows.key(j, first + c) : T{0};
    });
    __syncthreads();
    add_product(
        content,
        tile,
        [&](int i, int j) { return memory.second[i * tile_step + j]; },
        [&](int j, int c) { return memory.stage[j * tile_step + c]; });
    if (call.key_table)
      add_distance_rows(
          position, call.key_table, h, origin_of(call, at), memory.second, memory.stage, first);
  });
  if (parts.content_bias != nullptr) {
    const std::int64_t place =
        ((b * call.heads + h) * call.query_tiles() + query_tile) * call.dim + first;
    const int columns = call.dim - first < tile ? call.dim - first : tile;
    sum_rows(content, memory.stage, columns, parts.content_bias + place);
    sum_rows(position, memory.stage, columns, parts.position_bias + place);
  }
  if (parts.span != nullptr) {
    dspan += __shfl_xor_sync(all_lanes, dspan, 1);
    const std::int64_t i = query + threadIdx.x / 2;
    if (first == 0 && threadIdx.x % 2 == 0 && i < call.time)
      parts.span[(b * call.heads + h) * call.time + i] = dspan;
  }
  position.each([&](int i, int c, T sum) {
    const T both = content.at[i - Sums<T>::row()][c - Sums<T>::column()] + sum;
    if (query + i < call.time && first + c < call.dim)
      dquery.write(
          call.place(b, call.time, query + i, h, call.dim, first + c), call.scale * both, g.add);
  });
}

template <typename In>
__global__ void differentiate_keys(GradientCall<In> g, Either<In> dkey, Either<In> dvalue) {
  using T = Accumulator<In>;
  const AttentionCall<In>& call = g.call;
  const TileMemory<T> memory;
  const int widest = call.dim > call.value_dim ? call.dim : call.value_dim;
  const BlockPosition block(g, g.plan.by_key.order, slices_of(widest));
  const std::int64_t b = block.b, h = block.h, key_tile = block.tile_index;
  const int first = block.first;
  const std::int64_t key = key_tile * tile;
  Sums<T> of_key, of_value;
  for_query_tiles(call, g.plan.by_key, b, key_tile, [&](std::int64_t query_tile, bool full) {
    const TilePosition at{b, h, query_tile * tile, key, full};
    const TileRows<In> rows{call, at, *memory.keys};
    read_gradients(g, at, memory);
    const auto add_rows = [&](Sums<T>& sums, const T* factors, int width, auto row) {
      if (first >= width) return;
      __syncthreads();
      fill_rows<tile>(memory.stage, tile, tile_step, [&](int i, int c) {
        return first + c < width ? row(i, first + c) : T{0};
      });
      __syncthreads();
      add_product(
          sums,
          tile,
          [=](int j, int i) { return factors[i * tile_step + j]; },
          [&](int i, int c) { return memory.stage[i * tile_step + c]; });
    };
    add_rows(of_value, memory.first, call.value_dim, [&](int i, int c) {
      return rows.of_query(g.dout, i, c);
    });
    add_rows(of_key, memory.second, call.dim, [&](int i, int c) {
      return rows.query(i, c, call.content_bias);
    });
    if (call.keys_by_distance && first < call.dim)
      add_distance_rows<Multiplied::key>(
          of_key, call.key_table, h, origin_of(call, at), memory.second, memory.stage, first);
  });
  const bool add = g.adds_to_keys();
  of_key.each([&](int j, int c, T sum) {
    if (key + j < call.keys && first + c < call.dim)
      dkey.write(call.place(b, call.keys, key + j, h, call.dim, first + c), call.scale * sum, add);
  });
  of_value.each([&](int j, int c, T sum) {
    if (key + j < call.keys && first + c < call.value_dim)
      dvalue.write(call.place(b, call.keys, key + j, h, call.value_dim, first + c), sum, add);
  });
}

// Reduces the gradient of u or v, [heads, dim], from the partial sums of tiles.
template <typename T>
struct AddBiasParts {
  std::int64_t batch, heads, tiles, dim;
  T factor;
  const T* parts;
  T* gradient;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t h = i / dim, c = i % dim;
    T sum = 0;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < tiles; ++t)
        sum += parts[((b * heads + h) * tiles + t) * dim + c];
    gradient[i] += factor * sum;
  }
};

// Gradient of a token-dependent z, from rows [batch, heads, time].
template <typename T>
struct AddSpanOfTokens {
  std::int64_t time, heads;
  const T* rows;
  T* dspan;

  __device__ void operator()(std::int64_t i) const {
    const std::int64_t b = i / (time * heads), t = i / heads % time, h = i % heads;
    dspan[i] += rows[(b * heads + h) * time + t];
  }
};

// Gradient of z for each head, one block each.
template <typename T>
__global__ void add_span_of_heads(
    std::int64_t batch, std::int64_t heads, std::int64_t time, const T* rows, T* dspan) {
  T sum = 0;
  for (std::int64_t i = threadIdx.x; i < batch * time; i += blockDim.x)
    sum += rows[(i / time * heads + blockIdx.x) * time + i % time];
  sum = block_reduce(sum, shared_memory<T>(), Plus());
  if (threadIdx.x == 0) dspan[blockIdx.x] += sum;
}

template <typename In>
class Run {
 public:
  using T = Accumulator<In>;

  Run(Cuda cuda,
      const AttentionGradient& gradient,
      const ExternalScores& given,
      const ExternalScores& external_grads)
      : cuda_(cuda),
        g_(gradient),
        call_(gradient.forward, given),
        dgiven_(given, external_grads),
        with_matrices_(uses_tensor_cores(call_,
                                         {gradient.dout.bytes(),
                                          gradient.dquery.bytes(),
                                          gradient.dkey.bytes(),
                                          gradient.dvalue.bytes()})) {}

  void run() {
    const std::int64_t rows = call_.batch * call_.heads * call_.time;
    const Tensor delta = scratch({rows});
    launch_row_products<In>(cuda_,
                            rows,
                            call_.value_dim,
                            Deltas<In>{.heads = static_cast<std::uint32_t>(call_.heads),
                                       .time = static_cast<std::uint32_t>(call_.time),
                                       .width = call_.value_dim,
                                       .out = call_.out,
                                       .dout = g_.dout.data<In>(),
                                       .delta = delta.data<T>()});
    BiasProducts biases;
    if constexpr (sizeof(In) == 2)
      if (with_matrices_) biases = multiply_biases(cuda_, g_.dout.device(), call_);
    const std::int64_t tiles = with_matrices_ ? call_.key_tiles() : call_.query_tiles();
    Tensor content, position, span;
    BackwardParts<T> parts = {};
    if (g_.forward.relative) {
      content = scratch({call_.batch, call_.heads, tiles, call_.dim});
      parts.content_bias = content.data<T>();
    }
    if (g_.forward.relative && !with_matrices_) {
      position = scratch({call_.batch, call_.heads, tiles, call_.dim});
      parts.position_bias = position.data<T>();
    }
    if (g_.forward.span) {
      span = scratch({rows});
      parts.span = span.data<T>();
    }
    for (const HeadGroup& group : head_groups(g_.forward)) run_group(group, delta, parts);
    if (content.defined()) add_bias(content, g_.dcontent_bias);
    if (position.defined()) add_bias(position, g_.dposition_bias);
    if (span.defined()) add_spans(parts.span);
  }

 private:
  Tensor scratch(const Shape& shape) const {
    return Tensor::empty(shape, DTypeOf<T>::value, g_.dout.device(), MemoryTag::workspace);
  }

  void run_group(const HeadGroup& group, const Tensor& delta, const BackwardParts<T>& parts) {
    const PlanView plan = plan_view(cuda_, group.plan, true);
    auto ranges = with_matrices_ ? saved_ranges(call_, group) : std::vector<PairRange>();
    Tensor kept;
    if (!ranges.empty())
      kept = Tensor::empty(
          {max_pairs(ranges), plan.by_query.visits, std::int64_t{tile}, std::int64_t{tile}},
          DTypeOf<In>::value,
          g_.dout.device(),
          MemoryTag::workspace);
    else
      ranges = {{group.begin, group.count, 0, call_.batch}};
    for (const PairRange& range : ranges) {
      GradientCall<In> call = {
          {call_, plan, range.head_begin, range.heads, range.row_begin, range.rows},
          g_.dout.data<In>(),
          delta.data<T>(),
          g_.add,
          with_matrices_};
      if (kept.defined()) call.kept = kept.data<In>();
      run_pairs(call, group, parts);
    }
  }

  void run_pairs(const GradientCall<In>& call,
                 const HeadGroup& group,
                 const BackwardParts<T>& parts) {
    const auto grid = [&](std::int64_t tiles, int width) {
      return Grid{.blocks = tiles * call.pairs() * slices_of(width),
                  .threads = tile_threads,
                  .shared_bytes = TileMemory<T>::bytes(true)};
    };
    const Gradients<In> to = {
        Either<In>(g_.dquery), Either<In>(g_.dkey), Either<In>(g_.dvalue), parts};
    if (with_matrices_) {
      if constexpr (sizeof(In) == 2) differentiate_with_matrices(cuda_, call, to);
    } else {
      launch(cuda_,
             grid(call_.query_tiles(), call_.dim),
             differentiate_queries<In>,
             call,
             to.dquery,
             to.parts,
             dgiven_);
      launch(cuda_,
             grid(call_.key_tiles(), std::max(call_.dim, call_.value_dim)),
             differentiate_keys<In>,
             call,
             to.dkey,
             to.dvalue);
    }
    if (dgiven_.row != nullptr)
      launch(cuda_,
             {.blocks = call_.query_tiles() * call.heads,
              .threads = tile_threads,
              .shared_bytes = TileMemory<T>::bytes(true)},
             differentiate_rows<In>,
             call,
             dgiven_.row);
    const bool relative = g_.forward.relative.has_value();
    if (call_.key_table)
      add_table_gradient(cuda_,
                         call,
                         *group.plan,
                         false,
                         relative ? g_.dposition_key : g_.dkey_table,
                         with_matrices_ ? g_.dposition_bias : Tensor());
    if (call_.value_table)
      add_table_gradient(cuda_, call, *group.plan, true, g_.dvalue_table, Tensor());
    if (call_.bias.all != nullptr)
      add_distance_bias_gradient(cuda_, call, *group.plan, g_.ddistance_bias);
  }

  void add_bias(const Tensor& parts, const Tensor& gradient) {
    for_each_element(cuda_,
                     call_.heads * call_.dim,
                     AddBiasParts<T>{call_.batch,
                                     call_.heads,
                                     parts.shape()[2],
                                     call_.dim,
                                     call_.scale,
                                     parts.data<T>(),
                                     gradient.data<T>()});
  }

  void add_spans(const T* rows) {
    T* const dspan = g_.dspan.template data<T>();
    if (call_.span.by_token)
      for_each_element(
          cuda_, g_.dspan.elements(), AddSpanOfTokens<T>{call_.time, call_.heads, rows, dspan});
    else
      launch(cuda_,
             row_grid<T>(call_.heads, call_.batch * call_.time),
             add_span_of_heads<T>,
             call_.batch,
             call_.heads,
             call_.time,
             rows,
             dspan);
  }

  Cuda cuda_;
  const AttentionGradient& g_;
  AttentionCall<In> call_;
  GivenGradients<T> dgiven_;
  bool with_matrices_;
};

}  // namespace
}  // namespace tile_attention

void attention_backward(Cuda cuda, const AttentionGradient& g) {
  attention_backward(cuda, g, ExternalScores(), ExternalScores());
}

void attention_backward(Cuda cuda,
                        const AttentionGradient& g,
                        const ExternalScores& given,
                        const ExternalScores& gradients) {
  tile_attention::check(g);
  tile_attention::check(g.forward, given);
  tile_attention::check(given, gradients, g.forward.query.dtype());
  if (cuda.state->is_meta()) tile_attention::count_backward(*cuda.state, g.forward, given);
  const tile_attention::GroupedKeyGradients keys(g);
  with_floating_type(g.forward.query.dtype(), [&]<typename In>(TypeTag<In>) {
    tile_attention::Run<In>(cuda, keys.by_head(), given, gradients).run();
  });
  keys.sum(cuda);
}

}  // namespace longspan
