#include "framework/nn/attention/attention_op.h"

#include "framework/autograd/collectives.h"

namespace longspan {

bool is_causal(const AttentionMask& mask,
               const std::string& kind,
               const std::string& why_no_memory) {
  const bool causal = mask.rules.one_for_all() && mask.rules.of(0) == masks::causal();
  const bool everything = mask.rules.one_for_all() && mask.rules.of(0) == masks::everything();
  if (!causal && !everything)
    throw ConfigurationError("attention type {} supports only full and causal masks", kind);
  if (mask.query_begin != 0 || mask.key_begin != 0)
    throw ConfigurationError(
        "attention type {} does not support mem_len > 0: {}", kind, why_no_memory);
  return causal;
}

Variable attend(const ProjectedQKV& input,
                const AttentionMask& mask,
                const AttentionTerms& terms,
                const std::optional<AttentionDropout>& dropout) {
  if (!input.shares) return attention(input.query, input.key, input.value, mask, terms, dropout);
  return ring_attention(input.query, input.key, input.value, mask, terms, dropout, *input.shares);
}

ProjectedQKV gather_sequence(const ProjectedQKV& input) {
  if (!input.shares) return input;
  const SequenceShards& shares = *input.shares;
  const auto swap = [&](const Variable& x, const std::vector<Ranges>& positions) {
    return sequence_to_heads(x, positions, shares.ranks);
  };
  const Variable query = swap(input.query, shares.query_rows());
  ProjectedQKV result = {
      .query = query,
      .key = input.key.same_as(input.query) ? query : swap(input.key, shares.keys),
      .value = swap(input.value, shares.keys),
      .heads = input.heads};
  result.heads.count = input.heads.count / shares.ranks.size();
  result.heads.begin = input.heads.begin + shares.ranks.rank() * result.heads.count;
  return result;
}

Variable local_shard(const Variable& mixed, const ProjectedQKV& input) {
  if (!input.shares) return mixed;
  return heads_to_sequence(mixed, input.shares->query_rows(), input.shares->ranks);
}

}  // namespace longspan
