#include "framework/nn/attention/softmax_attention.h"

namespace longspan {

std::optional<AttentionDropout> probability_dropout(double rate,
                                                    const Part& heads,
                                                    const Pass& pass) {
  if (!pass.training || rate == 0) return std::nullopt;
  return AttentionDropout{.rate = rate,
                          .random = pass.random.child("probabilities"),
                          .batch_begin = pass.first_stream,
                          .head_begin = heads.begin,
                          .heads_total = heads.total};
}

namespace {

// Columns are folded in a call of a whole causal sequence.
bool can_fold(const Projected& input, const AttentionMask& mask) {
  const bool whole = input.shares ? input.heads.count % input.shares->ranks.size() == 0
                                  : input.query.shape()[1] == input.key.shape()[1];
  return whole && mask.query_begin == 0 && mask.key_begin == 0 && mask.rules.one_for_all() &&
         mask.rules.of(0) == masks::causal() && !mask.key_padding.defined() &&
         !mask.key_length.defined() && !mask.sorted;
}

}  // namespace

Variable SoftmaxAttention::operator()(const Projected& input,
                                      const SegmentContext& context,
                                      const Pass& pass) const {
  const auto dropout = probability_dropout(dropout_, input.heads, pass);
  const std::int64_t positions = context.mask.key_begin + input.positions();
  if (!can_fold(input, context.mask) || !pattern_.folded(input.heads, positions))
    return attend(input, with_pattern(context.mask, pattern_, input.heads, positions), {}, dropout);
  const Projected whole = whole_sequence(input);
  // Where context ranks divide the heads, this one may have none with columns.
  const auto keys = pattern_.folded(whole.heads, positions);
  const auto numbers = probability_dropout(dropout_, whole.heads, pass);
  const Variable mixed =
      keys ? folded_attention(whole.query, whole.key, whole.value, *keys, numbers)
           : attend(
                 whole, with_pattern(context.mask, pattern_, whole.heads, positions), {}, numbers);
  return own_share(mixed, input);
}

}  // namespace longspan
