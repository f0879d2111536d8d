// Attention that continues from the state of earlier positions.
#include <algorithm>

#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/kv_cache.h"

namespace longspan {
namespace {

void check_supported(const AttentionOp& mechanism, const ForwardContext& pass) {
  require(pass.kv_cache->sequence() || (!is_recording() && !pass.training),
          "decoding with a KV cache requires evaluation without gradients");
  if (!mechanism.supports_kv_cache())
    throw ConfigurationError("an attention type of this model does not support a KV cache");
}

// Returns the context for queries from `begin` on, over the cached keys.
AttentionContext cached_context(const AttentionContext& context,
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

// Projections of keys and values, which a cache stores.
std::vector<Variable> cached_projections(const ProjectedQKV& projected) {
  std::vector<Variable> result = {projected.key, projected.value};
  if (projected.global) {
    result.push_back(projected.global->key);
    result.push_back(projected.global->value);
  }
  return result;
}

void set_projections(ProjectedQKV& projected, std::span<const Variable> rows) {
  projected.key = rows[0];
  projected.value = rows[1];
  if (!projected.global) return;
  projected.global->key = rows[2];
  projected.global->value = rows[3];
}

}  // namespace

ChunkPlacement chunk_placement(const KVCache& chunks, std::int64_t keys) {
  const ChunkedSequence& sequence = *chunks.sequence();
  return {.begin = sequence.chunk(chunks.chunk()).begin, .queries = sequence.total, .keys = keys};
}

Variable MultiHeadAttention::attend_with_cache(const Variable& asking,
                                               const Variable& seen,
                                               const ForwardContext& reading,
                                               const AttentionContext& context,
                                               const ForwardContext& pass) const {
  check_supported(*mechanism_, pass);
  const KVCache& cache = *pass.kv_cache;
  const bool is_chunk = cache.sequence().has_value();
  require(is_chunk || seen.same_as(asking),
          "decoding with a KV cache cannot be combined with recurrent memory");
  ProjectedQKV projected = project(asking, seen, reading, pass);
  if (is_chunk)
    projected.chunk = chunk_placement(cache, cache.sequence()->memory + cache.sequence()->total);
  if (!mechanism_->has_recurrent_state()) {
    const AttentionContext cached = is_chunk ? with_chunk_keys(projected, context, pass)
                                             : with_cached_keys(projected, context, pass);
    return apply_attention(for_heads(std::move(projected)), cached, pass);
  }
  require(!cache.longest(), "a recurrent state does not support a limited KV cache");
  require(!context.mask.key_length.defined() && !context.mask.key_padding.defined(),
          "a recurrent state does not support padding");
  projected.state = &recurrent_state(asking.shape()[0], pass);
  if (is_chunk && mesh_.context.size() > 1)
    projected.shares = chunk_keys(mesh_, *cache.sequence(), cache.chunk(), 0).shards;
  AttentionContext causal = context;
  causal.mask.rules = context.mask.rules & masks::causal();
  // A state after the last chunk continues in the next segment. Only the first pass computes it.
  const bool ends_segment =
      cache.states() && cache.chunk() + 1 == cache.sequence()->count() && !state_names_.empty();
  const ChunkBoundaries ends = ends_segment ? projected.state->boundaries() : ChunkBoundaries();
  const bool restarts = rotary_ && mechanism_->rotates() && ends.needs_final();
  Variable y = apply_attention(for_heads(std::move(projected)), causal, pass);
  if (restarts) ends.after->value = rotary_->restart(ends.after->value, cache.sequence()->total);
  return y;
}

LayerKVCache& MultiHeadAttention::recurrent_state(std::int64_t rows,
                                                  const ForwardContext& pass) const {
  LayerKVCache& layer = pass.kv_cache->layer(pass.random.place());
  layer.require_rows(rows);
  layer.set_state_names(state_names_);
  return layer;
}

AttentionContext MultiHeadAttention::with_chunk_keys(ProjectedQKV& projected,
                                                     const AttentionContext& context,
                                                     const ForwardContext& pass) const {
  const ChunkedSequence& sequence = *pass.kv_cache->sequence();
  const std::int64_t chunk = pass.kv_cache->chunk();
  const ChunkKeys keys = chunk_keys(mesh_, sequence, chunk, mechanism_->max_distance());
  set_projections(projected,
                  pass.kv_cache->layer(pass.random.place())
                      .append_chunk(cached_projections(projected), keys.rows));
  if (mesh_.context.size() > 1) projected.shares = keys.shards;
  AttentionContext result = context;
  AttentionMask& mask = result.mask;
  mask.query_begin = keys.shards.chunk.begin;
  mask.key_begin = keys.key_begin;
  mask.rules = context.mask.rules & masks::causal();
  const Range seen = {keys.key_begin, keys.shards.chunk.end};
  mask.key_padding = slice_columns(mask.key_padding, seen);
  if (mask.sorted) {
    mask.sorted->query_position = slice_columns(mask.sorted->query_position, sequence.chunk(chunk));
    mask.sorted->query_bucket = slice_columns(mask.sorted->query_bucket, sequence.chunk(chunk));
    mask.sorted->key_position = slice_columns(mask.sorted->key_position, seen);
    mask.sorted->key_bucket = slice_columns(mask.sorted->key_bucket, seen);
  }
  return result;
}

AttentionContext MultiHeadAttention::with_cached_keys(ProjectedQKV& projected,
                                                      const AttentionContext& context,
                                                      const ForwardContext& pass) const {
  LayerKVCache& kept = pass.kv_cache->layer(pass.random.place());
  std::optional<std::int64_t> longest = pass.kv_cache->longest();
  if (const auto farthest = mechanism_->max_distance())
    longest = std::min(*farthest, longest.value_or(*farthest));
  // For one query a window masks older keys, so the cache needs a crop only at intervals. Several
  // queries attend to the same oldest key, which requires an exact crop.
  const std::int64_t begin = kept.end();
  const std::int64_t time = projected.input.shape()[1];
  if (longest && (time > 1 || kept.count() > 2 * *longest + 64)) kept.crop(*longest);
  std::vector<Variable> rows = cached_projections(projected);
  kept.append(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = kept.projection(i);
  set_projections(projected, rows);
  if (context.distances.defined() &&
      (!kept.distances.defined() || kept.distances.shape()[0] < context.distances.shape()[0]))
    kept.distances = mechanism_->distance_keys(context, pass);
  projected.distance_keys = kept.distances;
  return cached_context(context, kept, begin, longest);
}

Variable MultiHeadAttention::cross_attend_with_cache(const Variable& x,
                                                     const EncoderOutput& side,
                                                     const AttentionContext& context,
                                                     const ForwardContext& pass) const {
  check_supported(*mechanism_, pass);
  LayerKVCache& kept = pass.kv_cache->layer(pass.random.place());
  if (kept.empty()) {
    const Variable seen = region_.enter(side.rows, side.time);
    kept.append(std::vector<Variable>{
        normalize_and_rotate(split_heads((*key_)(seen), dim_), key_norm_, pass),
        split_heads((*value_)(seen), value_dim_)});
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
  // An op may have a state in addition to the keys.
  AttentionContext of_side = context;
  of_side.mask.key_length = kept.length;
  return apply_attention(
      for_heads({.query = normalize_and_rotate(
                     split_heads((*query_)(region_.enter(x, pass.time)), dim_), query_norm_, pass),
                 .key = kept.projection(0),
                 .value = kept.projection(1),
                 .heads = heads_,
                 .state = &kept}),
      of_side,
      pass);
}

}  // namespace longspan
