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

Variable SoftmaxAttention::operator()(const Projected& input,
                                      const SegmentContext& context,
                                      const Pass& pass) const {
  return attend(input, context.mask, {}, probability_dropout(dropout_, input.heads, pass));
}

}  // namespace longspan
