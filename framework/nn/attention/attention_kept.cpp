// Attention with a KV cache.
#include <algorithm>

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/kv_cache.h"

namespace longspan {
namespace {

void check_reads_on(const AttentionOp& mechanism, const ForwardContext& pass) {
  require(!is_recording() && !pass.training, "a KV cache requires evaluation without gradients");
  if (!mechanism.supports_kv_cache())
    throw ConfigurationError("an attention type of this model does not support a KV cache");
}

// Returns the context for queries from `begin` on, over the cached keys.
AttentionContext reading(const AttentionContext& context,
                         const LayerKVCache& kept,
                         std::int64_t begin,
                         const std::optional<std::int64_t>& longest) {
  AttentionContext result = context;
  result.mask.query_begin = begin;
  result.mask.key_begin = kept.begin();
  // No keys follow the last query, so a causal mask hides the unused capacity.
  result.mask.rules = context.mask.rules & masks::causal();
  if (longest && kept.count() > *longest + (kept.end() - begin))
    result.mask.rules = result.mask.rules & masks::window(*longest, 0);
  return result;
}

}  // namespace

Variable MultiHeadAttention::step_recurrent_state(const Variable& x,
                                                  const AttentionContext& context,
                                                  const ForwardContext& pass) const {
  LayerKVCache& kept = pass.kv_cache->layer(pass.random.place());
  require(!pass.kv_cache->longest(), "a recurrent state does not support a limited KV cache");
  require(!context.mask.key_length.defined() && !context.mask.key_padding.defined(),
          "a recurrent state does not support padding");
  const Variable asking = region_.enter(x, pass.time);
  kept.require_rows(x.shape()[0]);
  AttentionContext causal = context;
  causal.mask.rules = context.mask.rules & masks::causal();
  return apply_attention(
      {.query = normalize_and_rotate(split_heads((*query_)(asking)), query_norm_, pass),
       .key = for_heads(normalize_and_rotate(split_heads((*key_)(asking)), key_norm_, pass)),
       .value = for_heads(split_heads(value_(asking))),
       .heads = heads_,
       .input = asking,
       .state = &kept.state},
      causal,
      pass);
}

Variable MultiHeadAttention::attend_with_cache(const Variable& x,
                                               const AttentionContext& context,
                                               const ForwardContext& pass) const {
  check_reads_on(*mechanism_, pass);
  if (mechanism_->has_recurrent_state()) return step_recurrent_state(x, context, pass);
  LayerKVCache& kept = pass.kv_cache->layer(pass.random.place());
  std::optional<std::int64_t> longest = pass.kv_cache->longest();
  if (const auto farthest = mechanism_->max_distance())
    longest = std::min(*farthest, longest.value_or(*farthest));
  // For one query a window masks older keys, so the cache needs a crop only at intervals. Several
  // queries attend to the same oldest key, which requires an exact crop.
  const std::int64_t begin = kept.end();
  const std::int64_t time = x.shape()[1];
  if (longest && (time > 1 || kept.count() > 2 * *longest + 64)) kept.crop(*longest);
  const Variable asking = region_.enter(x, pass.time);
  std::vector<Variable> projections = {
      normalize_and_rotate(split_heads((*key_)(asking)), key_norm_, pass),
      split_heads(value_(asking))};
  if (!global_.empty()) {
    projections.push_back(normalize_and_rotate(split_heads(global_[1](asking)), key_norm_, pass));
    projections.push_back(split_heads(global_[2](asking)));
  }
  kept.append(projections);
  ProjectedQKV projected = {
      .query = normalize_and_rotate(split_heads((*query_)(asking)), query_norm_, pass),
      .key = for_heads(kept.projection(0)),
      .value = for_heads(kept.projection(1)),
      .heads = heads_,
      .input = asking};
  if (!global_.empty())
    projected.global = {
        .query = normalize_and_rotate(split_heads(global_[0](asking)), query_norm_, pass),
        .key = for_heads(kept.projection(2)),
        .value = for_heads(kept.projection(3))};
  if (context.distances.defined() &&
      (!kept.distances.defined() || kept.distances.shape()[0] < context.distances.shape()[0]))
    kept.distances = mechanism_->distance_keys(context, pass);
  projected.distance_keys = kept.distances;
  return apply_attention(projected, reading(context, kept, begin, longest), pass);
}

Variable MultiHeadAttention::cross_attend_with_cache(const Variable& x,
                                                     const EncoderOutput& side,
                                                     const AttentionContext& context,
                                                     const ForwardContext& pass) const {
  check_reads_on(*mechanism_, pass);
  LayerKVCache& kept = pass.kv_cache->layer(pass.random.place());
  if (kept.empty()) {
    const Variable seen = region_.enter(side.rows, side.time);
    kept.append(
        std::vector<Variable>{normalize_and_rotate(split_heads((*key_)(seen)), key_norm_, pass),
                              split_heads(value_(seen))});
    kept.length = context.mask.key_length;
    // The unused capacity after the encoder output is padding.
    if (!kept.length.defined())
      kept.length = Tensor::from<std::int64_t>(
          std::vector<std::int64_t>(static_cast<std::size_t>(kept.rows()), kept.count()),
          {kept.rows()},
          seen.value().device());
  }
  require(x.shape()[0] == kept.rows(),
          "KV cache: expected {} rows, found {}; call KVCache::choose",
          kept.rows(),
          x.shape()[0]);
  // An op may keep a state in addition to the keys.
  AttentionContext of_side = context;
  of_side.mask.key_length = kept.length;
  return apply_attention(
      {.query = normalize_and_rotate(
           split_heads((*query_)(region_.enter(x, pass.time))), query_norm_, pass),
       .key = for_heads(kept.projection(0)),
       .value = for_heads(kept.projection(1)),
       .heads = heads_,
       .state = &kept.state},
      of_side,
      pass);
}

}  // namespace longspan
