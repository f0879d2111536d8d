#include "framework/autograd/attention.h"
#include "framework/autograd/dtypes.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/chunk_slots.h"
#include "framework/kernels/attention/clusters.h"
#include "framework/kernels/attention/hash_buckets.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

// Returns item n of a leading axis, without that axis.
Tensor item(const Tensor& x, std::int64_t n) {
  return x.slice(n, n + 1).reshape(Shape(x.shape().extents().subspan(1)));
}

// Positions of a group in a batch row, [heads, width].
struct Groups {
  Tensor position;

  std::int64_t batch() const { return position.shape()[0]; }
  std::int64_t groups() const { return position.shape()[1]; }
  std::int64_t heads() const { return position.shape()[2]; }
  std::int64_t width() const { return position.shape()[3]; }
  Tensor of(std::int64_t b, std::int64_t g) const { return item(item(position, b), g); }
};

Groups groups_of(const Tensor& position, std::int64_t batch, std::int64_t heads) {
  const Shape& shape = position.shape();
  require(shape.dimensions() == 4 && shape[0] == batch && shape[2] == heads &&
              position.dtype() == DType::i32,
          "routed attention: expected group positions i32 [{}, groups, {}, width], found {} {}",
          batch,
          heads,
          name_of(position.dtype()),
          shape);
  return {position};
}

Tensor gathered(const Tensor& x, const Groups& groups) {
  const std::int64_t count = groups.groups();
  const Tensor y =
      Tensor::empty({groups.batch() * count, groups.width(), groups.heads(), x.shape()[3]},
                    x.dtype(),
                    x.device());
  on(x.device(), [&](auto backend) {
    for (std::int64_t b = 0; b < groups.batch(); ++b)
      for (std::int64_t g = 0; g < count; ++g)
        gather_slots(backend, item(x, b), groups.of(b, g), item(y, b * count + g));
  });
  return y;
}

// Adds a token's outputs in all groups to sums[b]. One group after another, because a token may be
// in several. sums: [batch, time, heads, dim].
void scatter(const Tensor& y, const Groups& groups, const Tensor& sums) {
  on(y.device(), [&](auto backend) {
    for (std::int64_t b = 0; b < groups.batch(); ++b)
      for (std::int64_t g = 0; g < groups.groups(); ++g)
        scatter_slots(backend,
                      {.rows = item(y, b * groups.groups() + g),
                       .position = groups.of(b, g),
                       .begin = 0,
                       .end = groups.width(),
                       .whole = item(sums, b)});
  });
}

Tensor scattered(const Tensor& y, const Groups& groups, std::int64_t time) {
  const Tensor sums = Tensor::zeros({groups.batch(), time, groups.heads(), y.shape()[3]},
                                    accumulator_of(y.dtype()),
                                    y.device(),
                                    MemoryTag::workspace);
  scatter(y, groups, sums);
  return sums;
}

// Returns the number of groups of each token, [batch, time, heads, 1].
Tensor counted(const Groups& groups, std::int64_t time, DType dtype, const Device& device) {
  const Tensor ones =
      Tensor::empty({groups.batch() * groups.groups(), groups.width(), groups.heads(), 1},
                    dtype,
                    device,
                    MemoryTag::workspace);
  const Tensor one = Tensor::scalar(1, dtype, device);
  on(device, [&](auto backend) { fill(backend, 1, one, ones); });
  return scattered(ones, groups, time);
}

Variable rows_before(const Variable& before, const Variable& x, std::int64_t batch) {
  const Shape& memory = before.shape();  // [clusters, rows, heads, dim]
  const std::int64_t width = memory[2] * memory[3], rows = memory[0] * memory[1];
  const Variable none(Tensor::zeros({batch, rows, width}, x.value().dtype(), x.value().device()));
  const Variable each = scale_and_add_positions(none, 1, reshape(before, {rows, width}));
  const Variable joined = concat_time(reshape(each, {batch * memory[0], memory[1], width}),
                                      reshape(x, {x.shape()[0], x.shape()[1], width}));
  return reshape(joined, x.shape().with(1, memory[1] + x.shape()[1]));
}

// Returns the key positions, preceded by those of `rows` memory rows, which have position 0.
Tensor with_memory(const Tensor& position, std::int64_t rows) {
  const Shape& shape = position.shape();  // [count, heads, width]
  const std::int64_t outer = shape[0] * shape[1], width = shape[2];
  const Tensor result =
      Tensor::zeros({shape[0], shape[1], rows + width}, DType::i32, position.device());
  on(position.device(), [&](auto backend) {
    copy_rows(backend,
              position.reshape({outer, width, 1}),
              0,
              result.reshape({outer, rows + width, 1}),
              rows,
              width,
              false);
  });
  return result;
}

AttentionTerms terms_of(const std::optional<double>& self_score) {
  AttentionTerms terms;
  if (self_score) terms.hash = LshTerm{.self_score = self_score};
  return terms;
}

}  // namespace

Variable gather_clusters(const Variable& x, const Tensor& position) {
  const Shape& shape = x.shape();
  const Groups groups = groups_of(position, shape[0], shape[2]);
  return record(gathered(x.value(), groups),
                {x},
                [groups, time = shape[1], dtype = x.value().dtype()](BackwardContext& gradients) {
                  gradients.set(0, to_dtype(scattered(gradients.output(), groups, time), dtype));
                });
}

Variable scatter_mean(const Variable& y, const Tensor& position, std::int64_t time, double floor) {
  const Groups groups = groups_of(position, position.shape()[0], y.shape()[2]);
  const DType dtype = y.value().dtype();
  const Device& device = y.value().device();
  const Tensor count = counted(groups, time, accumulator_of(dtype), device);
  const Tensor sums = scattered(y.value(), groups, time);
  const auto divide = [count, floor](const Tensor& from, DType to) {
    Tensor result = Tensor::empty(from.shape(), to, from.device());
    on(from.device(), [&](auto backend) {
      divide_rows(backend, {.x = from, .count = count, .floor = floor, .y = result});
    });
    return result;
  };
  return record(divide(sums, dtype), {y}, [groups, divide, dtype](BackwardContext& gradients) {
    gradients.set(0, gathered(divide(gradients.output(), dtype), groups));
  });
}

Variable routed_attention(const Variable& query,
                          const Variable& key,
                          const Variable& value,
                          const RoutedAttention& options,
                          const std::optional<AttentionDropout>& dropout) {
  const std::int64_t batch = query.shape()[0], heads = query.shape()[2];
  const Groups asking = groups_of(options.query_position, batch, heads);
  const Groups seen = groups_of(options.key_position, batch, heads);
  const std::int64_t count = batch * asking.groups();
  require(seen.groups() == asking.groups() && !(options.memory_key.defined() && options.self_score),
          "routed attention: invalid combination of {} query clusters and {} key clusters",
          asking.groups(),
          seen.groups());
  const bool same = options.query_position.bytes() == options.key_position.bytes();
  Variable keys = gather_clusters(key, seen.position);
  Variable values = gather_clusters(value, seen.position);
  Tensor key_position = seen.position.reshape({count, heads, seen.width()});
  if (options.memory_key.defined()) {
    keys = rows_before(options.memory_key, keys, batch);
    values = rows_before(options.memory_value, values, batch);
    key_position = with_memory(key_position, options.memory_key.shape()[1]);
  }
  // Members are in time order, so a causal mask over one list suffices.
  const bool by_place = same && options.causal && !options.memory_key.defined();
  const AttentionMask mask = {
      .rules = by_place ? masks::causal() : masks::everything(),
      .sorted =
          SortedSequence{.query_position = asking.position.reshape({count, heads, asking.width()}),
                         .key_position = key_position,
                         .causal = options.causal}};
  std::optional<AttentionDropout> dropped = dropout;
  if (dropped) dropped->batch_begin *= asking.groups();
  const Variable mixed = attention(gather_clusters(query, asking.position),
                                   keys,
                                   values,
                                   mask,
                                   terms_of(options.self_score),
                                   dropped);
  return scatter_mean(mixed, asking.position, query.shape()[1], options.count_floor);
}

Variable clustered_attention(const Variable& query,
                             const Variable& key,
                             const Variable& value,
                             const CausalClusters& options,
                             const std::optional<AttentionDropout>& dropout) {
  const Shape& shape = query.shape();
  const std::int64_t batch = shape[0], time = shape[1], heads = shape[2];
  const Device& device = query.value().device();
  const auto slots = [&] { return Tensor::empty({batch, heads, time}, DType::i32, device); };
  const Tensor order = slots(), bucket = slots(), key_position = slots(), key_bucket = slots();
  const Tensor place =
      Tensor::empty({batch, heads, 1, time}, DType::i32, device, MemoryTag::workspace);
  const Tensor sorted = place.empty_like(MemoryTag::workspace);
  on(device, [&](auto backend) {
    sort_buckets(
        backend,
        {.bucket = options.cluster, .buckets = options.clusters, .order = sorted, .place = place});
    for (std::int64_t b = 0; b < batch; ++b)
      chunk_slots(backend,
                  {.order = item(sorted, b),
                   .chunk = time,
                   .look_back = 0,
                   .count = time,
                   .query_position = item(order, b),
                   .key_position = item(key_position, b),
                   .bucket = item(options.cluster, b),
                   .query_bucket = item(bucket, b),
                   .key_bucket = item(key_bucket, b)});
  });
  const Tensor position = order.reshape({batch, 1, heads, time});
  const AttentionMask mask = {.rules = masks::window(options.width, 0),
                              .sorted = SortedSequence{.query_position = order,
                                                       .key_position = key_position,
                                                       .causal = true,
                                                       .query_bucket = bucket,
                                                       .key_bucket = key_bucket}};
  const Variable mixed = attention(gather_clusters(query, position),
                                   gather_clusters(key, position),
                                   gather_clusters(value, position),
                                   mask,
                                   terms_of(options.self_score),
                                   dropout);
  return scatter_mean(mixed, position, time);
}

}  // namespace longspan
