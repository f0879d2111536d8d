
#include <algorithm>
#include <cmath>

#include "framework/autograd/attention.h"
#include "framework/autograd/sequence_products.h"
#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/block_weights.h"

namespace longspan {
namespace {

Tensor from_host(const std::vector<double>& values,
                 const Shape& shape,
                 DType dtype,
                 const Device& device) {
  const Tensor here = Tensor::empty(shape, dtype, device.host());
  dispatch_on_host(here.device(), [&] {
    with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
      for (std::size_t i = 0; i < values.size(); ++i)
        here.data<T>()[i] = T(static_cast<Accumulator<T>>(values[i]));
    });
  });
  return copy_async(here, device);
}

struct Extents {
  std::int64_t batch, time, heads, dim, block, blocks, top;

  Extents(const Variable& query, const SinkhornAttention& options)
      : batch(query.shape()[0]),
        time(query.shape()[1]),
        heads(query.shape()[2]),
        dim(query.shape()[3]),
        block(options.block),
        blocks(time / options.block),
        top(std::max<std::int64_t>(options.top, 1)) {
    require(time % block == 0 && blocks > 0,
            "sinkhorn attention: expected a multiple of {} tokens, found {}",
            block,
            time);
    require(options.top <= blocks && (!options.causal || options.top > 0),
            "sinkhorn attention: cannot choose {} of {} blocks",
            options.top,
            blocks);
  }
};

// A block summary is a sum of its own tokens with weights [1 or blocks, block, 1]. It adds the
// token sums of earlier blocks with weights [1, blocks, blocks].
struct SummaryWeights {
  std::vector<double> own;
  std::vector<double> before;  // empty: all zero
};

// The mean of the block. If causal, a query summary is the mean of all tokens up to the first of
// its block. A key summary is the sum of such means over the tokens of its block. Queries are
// divided by sqrt(dim), so that their products with keys are scores.
SummaryWeights summary_weights(const Extents& at, bool causal, bool of_keys) {
  const double factor = of_keys ? 1 : 1 / std::sqrt(static_cast<double>(at.dim));
  SummaryWeights weights;
  if (!causal) {
    weights.own.assign(static_cast<std::size_t>(at.block), factor / static_cast<double>(at.block));
    return weights;
  }
  weights.own.assign(static_cast<std::size_t>(at.time), 0.0);
  weights.before.assign(static_cast<std::size_t>(at.blocks * at.blocks), 0.0);
  for (std::int64_t u = 0; u < at.blocks; ++u) {
    const std::int64_t begin = u * at.block;
    double* const own = weights.own.data() + begin;
    if (of_keys) {
      double sum = 0;
      for (std::int64_t t = at.block - 1; t >= 0; --t)
        own[t] = sum += 1 / static_cast<double>(begin + t + 1);
    } else {
      own[0] = factor / static_cast<double>(begin + 1);
    }
    std::fill_n(weights.before.begin() + u * at.blocks, u, own[0]);
  }
  return weights;
}

// Returns [batch * heads, blocks, dim].
Variable summary(const Variable& x, const Extents& at, bool causal, bool of_keys) {
  const std::int64_t rows = at.batch * at.heads;
  const DType dtype = x.value().dtype();
  const Device& device = x.value().device();
  const Variable tokens = reshape(to_heads_first(x), {rows * at.blocks, at.block, at.dim});
  const auto summed = [&](const std::vector<double>& weights) {
    const auto sets = static_cast<std::int64_t>(weights.size()) / at.block;
    const Variable by(from_host(weights, {sets, at.block, 1}, dtype, device));
    return reshape(project_sequence(tokens, by, {{0, at.block}}), {rows, at.blocks, at.dim});
  };
  const SummaryWeights weights = summary_weights(at, causal, of_keys);
  const Variable own = summed(weights.own);
  if (!causal) return own;
  const Variable sums = summed(std::vector<double>(static_cast<std::size_t>(at.block), 1.0));
  const Variable before(from_host(weights.before, {1, at.blocks, at.blocks}, dtype, device));
  return add(own, batched_matmul(before, sums));
}

// Returns the token order of each head: time order, or that with shifted blocks. `back`: the
// inverse.
Tensor rotation(const Extents& at, std::int64_t rotated_from, bool back, const Device& device) {
  std::vector<std::int32_t> position;
  for (std::int64_t b = 0; b < at.batch; ++b)
    for (std::int64_t h = 0; h < at.heads; ++h)
      for (std::int64_t t = 0; t < at.time; ++t) {
        const std::int64_t by = h < rotated_from ? 0 : at.block - 1;
        position.push_back(static_cast<std::int32_t>((t + (back ? at.time - by : by)) % at.time));
      }
  const Tensor here = Tensor::empty({at.batch, 1, at.heads, at.time}, DType::i32, device.host());
  dispatch_on_host(here.device(), [&] { std::ranges::copy(position, here.data<std::int32_t>()); });
  return copy_async(here, device);
}

Variable rotated(const Variable& x, const Extents& at, const SinkhornAttention& options) {
  if (!options.causal || options.rotated_from >= at.heads) return x;
  return gather_clusters(x, rotation(at, options.rotated_from, false, x.value().device()));
}

// Returns x [batch, time, heads, dim] with the null blocks prepended.
Variable with_null(const Variable& x, const Variable& null, const Extents& at) {
  const std::int64_t width = at.heads * at.dim, rows = at.top * at.block;
  const DType dtype = x.value().dtype();
  const Device& device = x.value().device();
  const Tensor first = Tensor::zeros({1, rows}, DType::i64, device);
  const Variable each =
      reshape(embedding(reshape(cast(null, dtype), {1, width}), first, 0, 1), {rows, width});
  const Variable before = scale_and_add_positions(
      Variable(Tensor::zeros({at.batch, rows, width}, dtype, device)), 1, each);
  return reshape(concat_time(before, reshape(x, {at.batch, at.time, width})),
                 {at.batch, rows + at.time, at.heads, at.dim});
}

// Returns products of block summaries in the accumulator dtype: rounding would make nearly equal
// scores equal.
Variable scores_of(const Variable& query,
                   const Variable& key,
                   const Extents& at,
                   const SinkhornAttention& options) {
  const DType wide = accumulator_of(query.value().dtype());
  Variable seen = cast(summary(key, at, options.causal, true), wide);
  if (options.causal)
    seen = concat_time(
        Variable(Tensor::zeros(
            {at.batch * at.heads, at.top, at.dim}, seen.value().dtype(), seen.value().device())),
        seen);
  return batched_matmul(cast(summary(query, at, options.causal, false), wide), seen, true);
}

// Returns the number of blocks in each row that have a token other than padding. Undefined without
// lengths.
Tensor real_blocks(const Extents& at, const SinkhornAttention& options) {
  if (options.causal || !options.length.defined()) return {};
  const Tensor count = options.length.empty_like();
  on(count.device(), [&](auto backend) { count_blocks(backend, options.length, at.block, count); });
  return count;
}

Variable weights_of(const Variable& scores, const Extents& at, const SinkhornAttention& options) {
  if (options.top == 0)
    return sinkhorn_weights(scores, options.uniform, options.temperature, options.iterations);
  const TopChoice choice = {.top = options.top,
                            .before = options.causal ? at.top : 0,
                            .causal = options.causal,
                            .temperature = options.temperature,
                            .real = real_blocks(at, options)};
  const auto choose = [&] { return choose_blocks(scores.value(), choice); };
  return top_weights(scores, options.decide ? options.decide(choose) : choose(), choice);
}

// Returns the mixed blocks of each block: [batch * blocks, top * block, heads, dim].
Variable mixed_blocks(const Variable& weights, const Variable& x, const Extents& at) {
  const std::int64_t count = x.shape()[1] / at.block;
  const Variable rows = reshape(to_heads_first(x), {at.batch * at.heads, count, at.block * at.dim});
  const Variable mixed = batched_matmul(weights, rows);
  const Variable in_time =
      reshape(mixed, {at.batch * at.heads, at.blocks * at.top * at.block, at.dim});
  return reshape(to_heads_inner(in_time, at.heads),
                 {at.batch * at.blocks, at.top * at.block, at.heads, at.dim});
}

Variable local_blocks(const Variable& x, const Extents& at) {
  return reshape(x, {at.batch * at.blocks, at.block, at.heads, at.dim});
}

Variable concat_blocks(const Variable& mixed, const Variable& own) {
  const auto flat = [](const Variable& x) {
    const Shape& shape = x.shape();
    return reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
  };
  const Variable both = concat_time(flat(mixed), flat(own));
  return reshape(both, own.shape().with(1, both.shape()[1]));
}

// In the last block of a rotated head, only the first token is later than the mixed blocks. The
// others are the first tokens of the sequence, which attend to one another.
SortedSequence rotated_sequence(const Extents& at,
                                std::int64_t rotated_from,
                                const Device& device) {
  const std::int64_t keys = (at.top + 1) * at.block;
  const Shape rows = {at.batch * at.blocks, at.heads, at.block};
  const auto sides = [&](std::int64_t count, std::int64_t before) {
    const Tensor here = Tensor::zeros(rows.with(2, count), DType::i32, device.host());
    dispatch_on_host(here.device(), [&] {
      for (std::int64_t b = 0; b < at.batch; ++b)
        for (std::int64_t h = rotated_from; h < at.heads; ++h) {
          std::int32_t* const row =
              here.data<std::int32_t>() + (((b + 1) * at.blocks - 1) * at.heads + h) * count;
          std::fill(row + before + 1, row + count, 1);
        }
    });
    return copy_async(here, device, MemoryTag::activations);
  };
  const Tensor query_position = Tensor::zeros(rows, DType::i32, device);
  const Tensor key_position = Tensor::zeros(rows.with(2, keys), DType::i32, device);
  return {.query_position = query_position,
          .key_position = key_position,
          .causal = false,
          .query_bucket = sides(at.block, 0),
          .key_bucket = sides(keys, at.top * at.block)};
}

AttentionMask mask_of(const Variable& weights,
                      const Extents& at,
                      const SinkhornAttention& options) {
  const Device& device = weights.value().device();
  AttentionMask mask = {.rules = masks::everything()};
  if (options.causal) {
    // The mixed blocks precede a query's own block.
    mask.rules = masks::causal();
    mask.query_begin = at.top * at.block;
    if (options.rotated_from < at.heads)
      mask.sorted = rotated_sequence(at, options.rotated_from, device);
  } else if (options.padding.defined() || options.length.defined()) {
    const auto make = [&] {
      const Tensor position = Tensor::empty(
          {at.batch * at.blocks, at.heads, (at.top + 1) * at.block}, DType::i32, device);
      on(device, [&](auto backend) {
        mixed_padding(backend,
                      {.weights = weights.value(),
                       .padding = options.padding,
                       .length = options.length,
                       .by_largest = options.padding_by_largest,
                       .position = position});
      });
      return position;
    };
    const Tensor position = options.decide_padding ? options.decide_padding(make) : make();
    const Tensor asking =
        Tensor::zeros({at.batch * at.blocks, at.heads, at.block}, DType::i32, device);
    mask.sorted =
        SortedSequence{.query_position = asking, .key_position = position, .causal = false};
  }
  return mask;
}

}  // namespace

Variable sinkhorn_weights(const Variable& scores,
                          const Tensor& uniform,
                          double temperature,
                          std::int64_t iterations) {
  const Tensor& value = scores.value();
  const Shape& shape = value.shape();
  SinkhornWeights call = {.scores = value,
                          .uniform = uniform,
                          .temperature = temperature,
                          .iterations = iterations,
                          .weights = value.empty_like(),
                          .normalizers = Tensor::empty(
                              {shape[0], 2 * iterations, shape[1]}, value.dtype(), value.device())};
  on(value.device(), [&](auto backend) { sinkhorn_weights(backend, call); });
  Tensor weights = call.weights;
  return record(std::move(weights), {scores}, [call](BackwardContext& gradients) {
    const Shape& of = call.scores.shape();
    const SinkhornWeightsGradient back = {
        .forward = call,
        .dweights = gradients.output(),
        .dscores = call.scores.empty_like(),
        .totals = Tensor::empty(
            {of[0], 2, of[1]}, call.scores.dtype(), call.scores.device(), MemoryTag::workspace)};
    on(call.scores.device(), [&](auto backend) { sinkhorn_weights_backward(backend, back); });
    gradients.set(0, back.dscores);
  });
}

Tensor choose_blocks(const Tensor& scores, const TopChoice& options) {
  const Shape& shape = scores.shape();
  const Tensor choice =
      Tensor::empty({shape[0], shape[1], options.top}, DType::i32, scores.device());
  on(scores.device(), [&](auto backend) {
    choose_blocks(backend,
                  {.scores = scores,
                   .choice = choice,
                   .before = options.before,
                   .causal = options.causal,
                   .real = options.real});
  });
  return choice;
}

Variable top_weights(const Variable& scores, const Tensor& choice, const TopChoice& options) {
  const Tensor& value = scores.value();
  const Shape& shape = value.shape();
  const TopWeights call = {
      .scores = value,
      .choice = choice,
      .before = options.before,
      .causal = options.causal,
      .temperature = options.temperature,
      .weights = Tensor::empty(
          {shape[0], shape[1] * options.top, shape[2]}, value.dtype(), value.device()),
      .real = options.real};
  on(value.device(), [&](auto backend) { top_weights(backend, call); });
  TopWeights kept = call;
  kept.weights = {};
  return record(call.weights, {scores}, [kept](BackwardContext& gradients) {
    const Tensor dscores = kept.scores.empty_like();
    on(dscores.device(), [&](auto backend) {
      top_weights_backward(backend,
                           {.forward = kept, .dweights = gradients.output(), .dscores = dscores});
    });
    gradients.set(0, dscores);
  });
}

SortedBlocks sorted_blocks(const Variable& query,
                           const Variable& key,
                           const Variable& value,
                           const SinkhornAttention& options) {
  const Extents at(query, options);
  require(key.shape() == query.shape() && value.shape() == query.shape(),
          "sinkhorn attention: expected equal shapes of query, key and value, found {}, {} and {}",
          query.shape(),
          key.shape(),
          value.shape());
  const Variable q = rotated(query, at, options), k = rotated(key, at, options);
  const Variable v = rotated(value, at, options);
  const Variable weights = weights_of(scores_of(q, k, at, options), at, options);
  const Variable narrow = cast(weights, query.value().dtype());
  const auto mixed = [&](const Variable& x, const Variable& null) {
    return mixed_blocks(narrow, options.causal ? with_null(x, null, at) : x, at);
  };
  const Variable mixed_keys = mixed(k, options.null_key);
  const Variable mixed_values = options.values_are_keys ? mixed_keys : mixed(v, options.null_value);
  return {.query = local_blocks(q, at),
          .key = concat_blocks(mixed_keys, local_blocks(k, at)),
          .value = concat_blocks(mixed_values, local_blocks(v, at)),
          .mask = mask_of(weights, at, options),
          .weights = weights};
}

Variable unsorted_blocks(const Variable& mixed,
                         std::int64_t batch,
                         const SinkhornAttention& options) {
  const Shape& shape = mixed.shape();
  const Variable in_time = reshape(mixed, {batch, shape[0] / batch * shape[1], shape[2], shape[3]});
  if (!options.causal || options.rotated_from >= shape[2]) return in_time;
  const Extents at(in_time, options);
  return gather_clusters(in_time, rotation(at, options.rotated_from, true, mixed.value().device()));
}

Variable sinkhorn_attention(const Variable& query,
                            const Variable& key,
                            const Variable& value,
                            const SinkhornAttention& options,
                            const std::optional<AttentionDropout>& dropout) {
  const SortedBlocks blocks = sorted_blocks(query, key, value, options);
  const std::int64_t batch = query.shape()[0];
  std::optional<AttentionDropout> dropped = dropout;
  if (dropped) dropped->batch_begin *= blocks.query.shape()[0] / batch;
  return unsorted_blocks(
      attention(blocks.query, blocks.key, blocks.value, blocks.mask, {}, dropped), batch, options);
}

}  // namespace longspan
