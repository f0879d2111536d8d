#include "framework/nn/attention/attention_op.h"

#include "framework/autograd/collectives.h"
#include "framework/autograd/sequence_products.h"
#include "framework/kernels/elementwise.h"

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

Variable gather_heads(const Variable& x, const std::optional<SequenceShards>& shares) {
  if (!shares || !x.defined()) return x;
  const Shape& shape = x.shape();
  const Variable rows = shape.dimensions() == 4 ? x : reshape(x, {shape[0], shape[1], shape[2], 1});
  const Variable whole = sequence_to_heads(rows, shares->query_rows(), shares->ranks);
  const Shape& of_whole = whole.shape();
  return shape.dimensions() == 4 ? whole : reshape(whole, {of_whole[0], of_whole[1], of_whole[2]});
}

Tensor gather_document_positions(const AttentionMask& mask,
                                 const std::optional<SequenceShards>& shares) {
  const Tensor& documents = mask.max_lookback;
  if (!documents.defined() || !shares) return documents;
  const std::vector<Ranges> positions = shares->query_rows();
  std::vector<std::int64_t> rows;
  for (const Ranges& ranges : positions) rows.push_back(total_count(ranges));
  const Shape& own = documents.shape();
  const Tensor gathered = gather_from_sequence_parallel_region(
                              Variable(documents.reshape({own[0], own[1], 1})), rows, shares->ranks)
                              .value();
  const Tensor all = Tensor::empty(gathered.shape(), DType::i64, documents.device());
  const auto by_row = [](const Tensor& x) { return x.reshape({x.shape()[0], x.shape()[1], 1, 1}); };
  std::int64_t begin = 0;
  for (const Ranges& ranges : positions)
    for (const Range& range : ranges) {
      move_rows(by_row(gathered), begin, by_row(all), range.begin, range.count());
      begin += range.count();
    }
  return all.reshape({own[0], all.shape()[1]});
}

ChunkBoundaries chunk_state(const ProjectedQKV& input, std::size_t index) {
  return input.state != nullptr ? input.state->boundaries(index) : ChunkBoundaries();
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
