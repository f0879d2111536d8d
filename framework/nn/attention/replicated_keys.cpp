#include "framework/nn/attention/replicated_keys.h"

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
