// Materialized cross-attention probabilities.
#include <algorithm>

#include "framework/autograd/cross_attention_losses.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/kv_cache.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

Variable MultiHeadAttention::probabilities(const Variable& x,
                                           const EncoderOutput& side,
                                           std::int64_t heads,
                                           const ForwardContext& pass) const {
  require(key_.has_value(), "shared queries and keys support self-attention only");
  const Variable query =
      normalize_and_rotate(split_heads((*query_)(region_.enter(x, pass.time))), query_norm_, pass);
  Variable key;
  Tensor length = side.length;
  if (pass.kv_cache) {
    const LayerKVCache& kept = pass.kv_cache->layer(pass.random.place());
    require(!kept.empty(), "cross-attention requires encoder outputs");
    key = for_all_heads(kept.projection(0));
    length = kept.length;
  } else {
    Variable own = (*key_)(region_.enter(side.rows, side.time));
    if (mesh_.context.size() > 1)
      own = all_gather_sequence(
          own, cross_attention_shards(mesh_, pass.time.total, side.time.total).keys, mesh_.context);
    key = for_all_heads(normalize_and_rotate(split_heads(std::move(own)), key_norm_, pass));
  }
  // A rank without any of the heads contributes zeros, because the backward collectives of its
  // projections need every rank.
  const std::int64_t here = std::clamp<std::int64_t>(heads - heads_.begin, 0, heads_.count);
  const double weight = here == 0 ? 0 : 1 / static_cast<double>(heads);
  return reduce_from_tensor_parallel_region(
      dense_attention_weights(query, key, length, {0, std::max<std::int64_t>(here, 1)}, weight),
      mesh_.tensor);
}

}  // namespace longspan
