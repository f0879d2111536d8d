#include "framework/autograd/given_attention.h"

#include "framework/autograd/dtypes.h"
#include "framework/autograd/given_scores.h"

namespace longspan {

GivenInputs add_given(const GivenVariables& given, std::vector<Variable>& inputs) {
  GivenInputs result;
  const Variable* const variables[] = {&given.row, &given.low, &given.high};
  for (std::size_t part = 0; part < given_parts.size(); ++part) {
    const Variable& variable = *variables[part];
    if (!variable.defined()) continue;
    result.values.*given_parts[part] = variable.value();
    result.places[part] = inputs.size();
    inputs.push_back(variable);
  }
  return result;
}

GivenScores given_gradients(const GivenScores& given) {
  GivenScores result;
  for (const auto part : given_parts)
    if (const Tensor& value = given.*part; value.defined())
      result.*part = Tensor::zeros(value.shape(), accumulator_of(value.dtype()), value.device());
  return result;
}

void give_given_gradients(Gradients& gradients,
                          const GivenPlaces& places,
                          const GivenScores& found,
                          DType dtype) {
  for (std::size_t part = 0; part < given_parts.size(); ++part)
    if (const std::size_t place = places[part]; place != 0 && gradients.wanted(place))
      gradients.give(place, in_dtype(found.*given_parts[part], dtype));
}

Variable given_attention(const Variable& query,
                         const Variable& key,
                         const Variable& value,
                         const AttentionMask& mask,
                         const AttentionTerms& terms,
                         const GivenVariables& given,
                         const std::optional<AttentionDropout>& dropout,
                         const std::optional<SequenceShares>& shares) {
  if (!shares) return attention_with(query, key, value, mask, terms, given, dropout);
  return ring_attention_with(query, key, value, mask, terms, given, dropout, *shares);
}

}  // namespace longspan
