#include "framework/nn/attention/compressed_attention.h"

#include <algorithm>

#include "framework/autograd/sequence_products.h"
#include "framework/core/async_copy.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/block_weights.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"

namespace longspan {
namespace {

std::string validate_compressed(const AttentionOptions&, const AttentionBuildOptions& setting) {
  if (setting.memory)
    return "model.attention.layer_types: memory_compressed does not support model.mem_len";
  return validate_head_sharding("memory_compressed", setting.heads, setting.mesh);
}

// Concatenates along positions, both [batch, any, heads, dim].
Variable behind(const Variable& before, const Variable& after) {
  const auto flat = [](const Variable& x) {
    const Shape& shape = x.shape();
    return reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
  };
  const Variable both = concat_time(flat(before), flat(after));
  return reshape(both, after.shape().with(1, both.shape()[1]));
}

Variable filled_up(const Variable& x, std::int64_t rows) {
  if (x.shape()[1] == rows) return x;
  const Shape missing = x.shape().with(1, rows - x.shape()[1]);
  return behind(x, Variable(Tensor::zeros(missing, x.value().dtype(), x.value().device())));
}

// Returns the positions of the compressed keys (those of their last tokens), padded to a fixed
// count, followed by those of the tokens; and the positions of the queries.
SortedSequence causal_positions(std::int64_t batch,
                                std::int64_t heads,
                                std::int64_t time,
                                std::int64_t width,
                                std::int64_t compressed,
                                std::int64_t room,
                                const Device& device) {
  const auto rows_of = [&](std::int64_t begin, std::int64_t count) {
    const Tensor here = Tensor::empty({batch, heads, count}, DType::i32, device.host());
    dispatch_on_host(here.device(), [&] {
      for (std::int64_t i = 0; i < here.elements(); ++i) {
        const std::int64_t k = begin + i % count;
        const std::int64_t of_block = k < compressed ? (k + 1) * width - 1 : -1;
        here.data<std::int32_t>()[i] = static_cast<std::int32_t>(k < room ? of_block : k - room);
      }
    });
    return copy_async(here, device, MemoryTag::activations);
  };
  return {.query_position = rows_of(room, time), .key_position = rows_of(0, room + time)};
}

}  // namespace

void declare(OptionTable& table, CompressedOptions& options) {
  table.add("model.attention.compression_factor",
            options.width,
            "number of tokens compressed into one key and one value",
            between(1, 1 << 16),
            affects_weights(),
            only_with(layer_type({"memory_compressed"})));
}

CompressedAttention::CompressedAttention(const Scope& scope, const Options& options)
    : width_(options.compressed.width),
      dropout_(options.dropout),
      heads_(scope.part(options.heads)) {
  throw_if_error(
      validate_head_sharding("memory_compressed", options.heads, scope.parameters().mesh().shape));
  const Shape shape = {options.heads, width_ * options.dim, options.dim};
  const Initializer initial = Initializer::xavier(width_ * options.dim, options.dim);
  keys_ = scope.weight("compressed_keys", shape, initial, 0);
  values_ = scope.weight("compressed_values", shape, initial, 0);
}

Variable CompressedAttention::compress(const Variable& x,
                                       const Weight& weight,
                                       const ShardRange& heads) const {
  const Shape& shape = x.shape();
  const Shape& map = weight->shape;
  const Variable flat = reshape(weight->variable, {1, map[0], map[1] * map[2]});
  const Variable maps = reshape(slice_sequence(flat, heads.begin - heads_.begin, heads.count),
                                {heads.count, map[1], map[2]});
  const Variable rows =
      reshape(to_heads_first(x), {shape[0] * shape[2], shape[1] / width_, width_ * shape[3]});
  return to_heads_inner(batched_matmul(rows, maps), shape[2]);
}

Variable CompressedAttention::operator()(const ProjectedQKV& input,
                                         const AttentionContext& context,
                                         const ForwardContext& pass) const {
  const bool causal = is_causal_only(context.mask, "memory_compressed");
  ProjectedQKV all = gather_sequence(input);
  all.shares = {};
  const Tensor& length = context.mask.key_length;
  const Shape& shape = all.query.shape();
  const std::int64_t time = shape[1], heads = shape[2];
  const std::int64_t blocks = (time + width_ - 1) / width_;
  const Device& device = all.query.value().device();
  const auto compressed = [&](const Variable& x, const Weight& weight) {
    const Variable real = mask_padding(x, {{0, time}}, length);
    return compress(filled_up(real, blocks * width_), weight, all.heads);
  };
  const Variable key = compressed(all.key, keys_), value = compressed(all.value, values_);
  const auto dropout = probability_dropout(dropout_, all, context.mask, pass);
  AttentionMask mask = {.rules = masks::everything()};
  if (!causal) {
    if (length.defined()) {
      mask.key_length = length.empty_like();
      on(device, [&](auto backend) { count_blocks(backend, length, width_, mask.key_length); });
    }
    return local_shard(attention(all.query, key, value, mask, {}, dropout), input);
  }
  // The slots of compressed keys are padded to a multiple of the block size. The tokens of a
  // query's own group are then aligned with a block.
  const std::int64_t room = (blocks + width_ - 1) / width_ * width_;
  mask.rules = masks::columns(masks::unlimited, 0, room) | masks::block(width_);
  mask.query_begin = room;
  mask.sorted = causal_positions(shape[0], heads, time, width_, blocks, room, device);
  return local_shard(attention(all.query,
                               behind(filled_up(key, room), all.key),
                               behind(filled_up(value, room), all.value),
                               mask,
                               {},
                               dropout),
                     input);
}

AttentionKind compressed_kind() {
  return {.name = "memory_compressed",
          .sees = "one key for every few tokens",
          .alone = "its keys are not tokens",
          .own_weights = true,
          .problem = validate_compressed,
          .make = [](const Scope& attention,
                     const AttentionOptions& options,
                     const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
            throw_if_error(validate_compressed(options, setting));
            return std::make_unique<CompressedAttention>(
                attention,
                CompressedAttention::Options{.compressed = options.compressed,
                                             .heads = setting.heads,
                                             .dim = setting.dim,
                                             .dropout = setting.dropout});
          }};
}

}  // namespace longspan
