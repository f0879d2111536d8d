#include "framework/autograd/dtypes.h"
#include "framework/autograd/external_scores.h"
#include "framework/core/dispatch.h"

namespace longspan {
namespace {

void attention_gradients(BackwardContext& gradients,
                         const Attention& forward,
                         const TermPlaces& places,
                         const GivenInputs& given) {
  AttentionGradient call = term_gradients(gradients, forward, places);
  call.forward = forward;
  call.dout = gradients.output();
  call.dquery = forward.query.empty_like();
  call.dkey = forward.key.empty_like();
  call.dvalue = forward.value.empty_like();
  const ExternalScores dgiven = external_score_gradients(given.values);
  dispatch_or_meta(call.dout.device(),
                   [&](auto backend) { attention_backward(backend, call, given.values, dgiven); });
  const Tensor* const results[] = {&call.dquery, &call.dkey, &call.dvalue};
  for (std::size_t input = 0; input < 3; ++input)
    if (gradients.needs_gradient(input)) gradients.set(input, *results[input]);
  add_term_gradients(gradients, call, forward, places);
  add_sink_gradients(gradients, places, forward.out, forward.log_sum_exp, call.dout);
  add_external_gradients(gradients, given.places, dgiven, forward.query.dtype());
}

}  // namespace

Variable attention(const Variable& query,
                   const Variable& key,
                   const Variable& value,
                   const AttentionMask& mask,
                   const AttentionTerms& terms,
                   const std::optional<AttentionDropout>& dropout) {
  return attention_with(query, key, value, mask, terms, ExternalScoreVariables(), dropout);
}

Variable attention_with(const Variable& query,
                        const Variable& key,
                        const Variable& value,
                        const AttentionMask& mask,
                        const AttentionTerms& terms,
                        const ExternalScoreVariables& given,
                        const std::optional<AttentionDropout>& dropout) {
  const Tensor& q = query.value();
  Attention call;
  call.query = q;
  call.key = key.value();
  call.value = value.value();
  call.mask = mask;
  std::vector<Variable> inputs = {query, key, value};
  const TermPlaces places = add_terms(terms, call, inputs);
  GivenInputs scores = add_external_scores(given, inputs);
  if (dropout && dropout->rate > 0) call.dropout = dropout;
  call.out = Tensor::empty(q.shape().with(-1, value.shape()[-1]), q.dtype(), q.device());
  call.log_sum_exp = empty_accumulator(q, {q.shape()[0], q.shape()[2], q.shape()[1]});
  dispatch_or_meta(q.device(), [&](auto backend) { attention(backend, call, scores.values); });
  join_sinks(places, call.out, call.log_sum_exp);
  Tensor out = call.out;
  return record(
      std::move(out),
      inputs,
      [call = std::move(call), places, scores = std::move(scores)](BackwardContext& gradients) {
        attention_gradients(gradients, call, places, scores);
      });
}

}  // namespace longspan
