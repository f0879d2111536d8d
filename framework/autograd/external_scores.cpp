#include "framework/autograd/external_scores.h"

#include "framework/autograd/dtypes.h"

namespace longspan {

GivenInputs add_external_scores(const ExternalScoreVariables& given,
                                std::vector<Variable>& inputs) {
  GivenInputs result;
  const Variable* const variables[] = {&given.row, &given.low, &given.high};
  for (std::size_t part = 0; part < external_parts.size(); ++part) {
    const Variable& variable = *variables[part];
    if (!variable.defined()) continue;
    result.values.*external_parts[part] = variable.value();
    result.places[part] = inputs.size();
    inputs.push_back(variable);
  }
  return result;
}

ExternalScores external_score_gradients(const ExternalScores& given) {
  ExternalScores result;
  for (const auto part : external_parts)
    if (const Tensor& value = given.*part; value.defined())
      result.*part = Tensor::zeros(value.shape(), accumulator_of(value.dtype()), value.device());
  return result;
}

void add_external_gradients(BackwardContext& gradients,
                            const GivenPlaces& places,
                            const ExternalScores& found,
                            DType dtype) {
  for (std::size_t part = 0; part < external_parts.size(); ++part)
    if (const std::size_t place = places[part]; place != 0 && gradients.needs_gradient(place))
      gradients.set(place, to_dtype(found.*external_parts[part], dtype));
}

Variable attention_with_external_scores(const Variable& query,
                                        const Variable& key,
                                        const Variable& value,
                                        const AttentionMask& mask,
                                        const AttentionTerms& terms,
                                        const ExternalScoreVariables& given,
                                        const std::optional<AttentionDropout>& dropout,
                                        const std::optional<SequenceShards>& shares) {
  if (!shares) return attention_with(query, key, value, mask, terms, given, dropout);
  return ring_attention_with(query, key, value, mask, terms, given, dropout, *shares);
}

}  // namespace longspan
