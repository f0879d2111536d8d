#include "framework/nn/attention/sinkhorn_attention.h"

#include <algorithm>

#include "framework/autograd/sequence_products.h"
#include "framework/core/async_copy.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"

namespace longspan {
namespace {

std::string validate_sinkhorn(const AttentionOptions& options,
                              const AttentionBuildOptions& setting) {
  if (setting.memory) return "model.attention.layer_types: sinkhorn does not support model.mem_len";
  if (setting.causal && options.sinkhorn.top == 0)
    return "model.attention.sinkhorn.num_top_blocks: 0 does not support causal models; set it to "
           "at least 1";
  return validate_head_sharding("sinkhorn", setting.heads, setting.mesh);
}

// Returns uniform random numbers in (0, 1) for each stream and head of the model: [batch * heads,
// blocks, blocks].
Tensor uniform_numbers(const Random& random,
                       std::int64_t first_stream,
                       std::int64_t batch,
                       const ShardRange& heads,
                       std::int64_t blocks,
                       DType dtype,
                       const Device& device) {
  const std::int64_t elements = blocks * blocks;
  const Tensor drawn = Tensor::empty({batch * heads.count, blocks, blocks}, dtype, device.host());
  dispatch_on_host(drawn.device(), [&] {
    with_floating_type(dtype, [&]<typename T>(TypeTag<T>) {
      T* const to = drawn.data<T>();
#pragma omp parallel for if (drawn.elements() > 16384)
      for (std::int64_t n = 0; n < batch * heads.count; ++n) {
        const Random place =
            random.child(static_cast<std::uint64_t>(first_stream + n / heads.count))
                .child(static_cast<std::uint64_t>(heads.begin + n % heads.count));
        for (std::int64_t i = 0; i < elements; ++i)
          to[n * elements + i] =
              T(static_cast<Accumulator<T>>(place.uniform_at(static_cast<std::uint64_t>(i))));
      }
    });
  });
  return copy_async(drawn, device, MemoryTag::activations);
}

// Returns x [batch, time, heads, dim] padded with zeros along time.
Variable with_trailing_zeros(const Variable& x, std::int64_t time) {
  const Shape& shape = x.shape();
  if (shape[1] == time) return x;
  const std::int64_t width = shape[2] * shape[3];
  const Variable zeros(
      Tensor::zeros({shape[0], time - shape[1], width}, x.value().dtype(), x.value().device()));
  return reshape(concat_time(reshape(x, {shape[0], shape[1], width}), zeros), shape.with(1, time));
}

// Returns `length`, whose elements may exceed the sequence, or if undefined `time` for every row.
Tensor lengths_of(const Tensor& length,
                  std::int64_t batch,
                  std::int64_t time,
                  const Device& device) {
  if (length.defined()) return length;
  const Tensor all = Tensor::empty({batch}, DType::i64, device.host());
  dispatch_on_host(all.device(), [&] { std::ranges::fill(all.span<std::int64_t>(), time); });
  return copy_async(all, device, MemoryTag::activations);
}

}  // namespace

void declare(OptionTable& table, SinkhornOptions& options) {
  table.add("model.attention.sinkhorn.block_size",
            options.block,
            "block size in tokens",
            between(1, 1 << 20),
            only_with(layer_type({"sinkhorn"})));
  table.add("model.attention.sinkhorn.num_top_blocks",
            options.top,
            "number of other blocks that a block attends to; 0: a mixture of all blocks, which is "
            "not causal; none: 2 in a causal model, otherwise 0",
            between(0, 1 << 10),
            only_with(layer_type({"sinkhorn"})));
  table.add("model.attention.sinkhorn.num_iterations",
            options.iterations,
            "number of Sinkhorn iterations over the rows and columns of the mixture",
            between(1, 100),
            only_with(is("model.attention.sinkhorn.num_top_blocks", {"0", "none"})));
  table.add("model.attention.sinkhorn.temperature",
            options.temperature,
            "temperature of the scores between blocks; none: 1 in a causal model, otherwise 0.75",
            more_than(0.0),
            only_with(layer_type({"sinkhorn"})));
  table.add("model.attention.sinkhorn.rotate_half_heads",
            options.rotated,
            "shift of block boundaries by model.attention.sinkhorn.block_size - 1 tokens in half "
            "of the heads of a causal model",
            only_with(layer_type({"sinkhorn"})));
}

SinkhornAttentionOp::SinkhornAttentionOp(const Scope& scope, const Options& options)
    : options_(options), heads_(scope.part(options.heads)) {
  throw_if_error(
      validate_head_sharding("sinkhorn", options.heads, scope.parameters().mesh().shape));
  if (!options.causal) return;
  const Initializer initial = Initializer::normal(0.02);
  null_key_ = scope.no_decay_weight("null_key", {options.heads, options.dim}, initial, 0);
  null_value_ = scope.no_decay_weight("null_value", {options.heads, options.dim}, initial, 0);
}

SinkhornAttention SinkhornAttentionOp::call(const ProjectedQKV& all,
                                            const AttentionContext& context,
                                            std::int64_t blocks,
                                            const ForwardContext& pass) const {
  const SinkhornOptions& options = options_.sinkhorn;
  const bool causal = options_.causal;
  const Shape& shape = all.query.shape();
  const Device& device = all.query.value().device();
  SinkhornAttention call = {.block = options.block,
                            .top = std::min(options.top.value_or(causal ? 2 : 0), blocks),
                            .temperature = options.temperature.value_or(causal ? 1 : 0.75),
                            .iterations = options.iterations,
                            .causal = causal,
                            .rotated_from = shape[2]};
  const auto decided_at = [&](const char* name) {
    return [place = pass.child(name)](const std::function<Tensor()>& make) {
      return place.decide(make);
    };
  };
  call.decide = decided_at("blocks");
  call.decide_padding = decided_at("padding");
  if (causal) {
    const std::int64_t begin = all.heads.begin - heads_.begin, count = shape[2];
    const auto own = [&](const Weight& weight) {
      const Variable rows = reshape(weight->variable, {1, heads_.count, options_.dim});
      return reshape(slice_sequence(rows, begin, count), {1, count, options_.dim});
    };
    call.null_key = own(null_key_);
    call.null_value = own(null_value_);
    const std::int64_t half = all.heads.total / 2 - all.heads.begin;
    if (options.rotated) call.rotated_from = std::clamp<std::int64_t>(half, 0, count);
    return call;
  }
  if (context.mask.key_length.defined() || shape[1] % options.block != 0)
    call.length = lengths_of(context.mask.key_length, shape[0], shape[1], device);
  if (call.top == 0 && pass.training)
    call.uniform = uniform_numbers(pass.random.child("noise"),
                                   pass.first_stream,
                                   shape[0],
                                   all.heads,
                                   blocks,
                                   accumulator_of(all.query.value().dtype()),
                                   device);
  return call;
}

Variable SinkhornAttentionOp::operator()(const ProjectedQKV& input,
                                         const AttentionContext& context,
                                         const ForwardContext& pass) const {
  if (is_causal_only(context.mask, "sinkhorn") != options_.causal)
    throw ConfigurationError("attention type sinkhorn of this model supports only {} masks",
                             options_.causal ? "causal" : "full");
  const ProjectedQKV all = gather_sequence(input);
  const std::int64_t time = all.query.shape()[1], block = options_.sinkhorn.block;
  const std::int64_t blocks = (time + block - 1) / block;
  const SinkhornAttention options = call(all, context, blocks, pass);
  const auto prepared = [&](const Variable& x) {
    const Variable whole = with_trailing_zeros(x, blocks * block);
    return mask_padding(whole, {{0, blocks * block}}, options.length);
  };
  const Variable mixed =
      sinkhorn_attention(prepared(all.query),
                         prepared(all.key),
                         prepared(all.value),
                         options,
                         probability_dropout(options_.dropout, all, context.mask, pass));
  return local_shard(slice_sequence(mixed, 0, time), input);
}

AttentionKind sinkhorn_kind() {
  return {.name = "sinkhorn",
          .sees = "the query's block and the blocks that a learned sorting assigns to it",
          .alone = "it sorts whole blocks",
          .turns = true,
          .own_weights = true,
          .problem = validate_sinkhorn,
          .make = [](const Scope& attention,
                     const AttentionOptions& options,
                     const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
            throw_if_error(validate_sinkhorn(options, setting));
            return std::make_unique<SinkhornAttentionOp>(
                attention,
                SinkhornAttentionOp::Options{.sinkhorn = options.sinkhorn,
                                             .causal = setting.causal,
                                             .heads = setting.heads,
                                             .dim = setting.dim,
                                             .dropout = setting.dropout});
          }};
}

}  // namespace longspan
