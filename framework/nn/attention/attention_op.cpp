#include "framework/nn/attention/attention_op.h"

#include "framework/autograd/collectives.h"
#include "framework/autograd/sequence_products.h"

namespace longspan {
namespace {

Variable rows_joined(const Variable& before, const Variable& x) {
  const auto flat = [](const Variable& y) {
    const Shape& shape = y.shape();
    return reshape(y, {shape[0], shape[1], shape[2] * shape[3]});
  };
  if (!before.defined()) return x;
  const Variable joined = concat_time(flat(before), flat(x));
  return reshape(joined, x.shape().with(1, joined.shape()[1]));
}

}  // namespace

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
      .key = input.key.same_as(input.query) ? query : swap(input.key, shares.key_rows()),
      .value = swap(input.value, shares.key_rows()),
      .heads = input.heads,
      .chunk = input.chunk};
  result.heads.count = input.heads.count / shares.ranks.size();
  result.heads.begin = input.heads.begin + shares.ranks.rank() * result.heads.count;
  return result;
}

Variable local_shard(const Variable& mixed, const ProjectedQKV& input) {
  if (!input.shares) return mixed;
  return heads_to_sequence(mixed, input.shares->query_rows(), input.shares->ranks);
}

Ranges key_positions(const ProjectedQKV& input) {
  if (input.shares) return input.shares->keys[input.shares->local_index()];
  return {{0, input.value.shape()[1]}};
}

Variable attend_replicated_keys(const ProjectedQKV& input,
                                const Variable& key,
                                const Variable& value,
                                const std::optional<AttentionDropout>& dropout) {
  const AttentionMask mask = {.rules = masks::everything()};
  if (!input.shares || !dropout) return attention(input.query, key, value, mask, {}, dropout);
  Variable result;
  std::int64_t row = 0;
  const Ranges rows = input.shares->query_rows()[input.shares->local_index()];
  for (const Range& range : rows) {
    AttentionDropout own = *dropout;
    own.time_begin = range.begin;
    own.time_total = input.shares->queries_total;
    const Variable query = slice_sequence(input.query, row, range.count());
    result = rows_joined(result, attention(query, key, value, mask, {}, own));
    row += range.count();
  }
  return result.defined() ? result : attention(input.query, key, value, mask);
}

}  // namespace longspan
