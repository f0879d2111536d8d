#include "framework/autograd/external_scores.h"

#include "framework/autograd/dtypes.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/sinks.h"
#include "framework/kernels/elementwise.h"

namespace longspan {
namespace {

Tensor zeros_of_sums(const Tensor& value) {
  return Tensor::zeros(value.shape(), accumulator_of(value.dtype()), value.device());
}

// Biases, tables and spans are parameters or in the accumulator dtype, so their gradients
// accumulate in that dtype.
Tensor gradient_or_scratch(BackwardContext& gradients, std::size_t input, const Tensor& value) {
  return gradients.needs_gradient(input) ? gradients.accumulate_target(input)
                                         : zeros_of_sums(value);
}

}  // namespace

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

TermPlaces add_terms(const AttentionTerms& terms, Attention& call, std::vector<Variable>& inputs) {
  TermPlaces places;
  const auto input = [&](const Variable& variable) {
    inputs.push_back(variable);
    return inputs.size() - 1;
  };
  call.slopes = terms.slopes;
  call.hash = terms.hash;
  call.scale = terms.scale;
  call.cap = terms.cap;
  if (const auto& relative = terms.relative) {
    call.relative = RelativeTerm{.position_key = relative->position_key.value(),
                                 .content_bias = relative->content_bias.value(),
                                 .position_bias = relative->position_bias.value()};
    places.relative = input(relative->position_key);
    input(relative->content_bias);
    input(relative->position_bias);
  }
  if (const auto& shaw = terms.shaw) {
    call.shaw.emplace();
    call.shaw->of_keys = shaw->of_keys;
    if (shaw->key_table.defined()) {
      call.shaw->key_table = shaw->key_table.value();
      places.key_table = input(shaw->key_table);
      places.key_table_is_made = shaw->made;
    }
    if (shaw->value_table.defined()) {
      call.shaw->value_table = shaw->value_table.value();
      places.value_table = input(shaw->value_table);
    }
  }
  if (terms.distance_bias.defined()) {
    call.distance_bias = terms.distance_bias.value();
    places.distance_bias = input(terms.distance_bias);
  }
  if (const auto& span = terms.span) {
    call.span = SpanTerm{
        .span = span->span.value(), .ramp = span->ramp, .first = span->first, .floor = span->floor};
    places.span = input(span->span);
  }
  if (terms.sinks.defined()) {
    places.sinks = input(terms.sinks);
    places.sink_values = terms.sinks.value();
  }
  return places;
}

AttentionGradient term_gradients(BackwardContext& gradients,
                                 const Attention& forward,
                                 const TermPlaces& places) {
  AttentionGradient call;
  if (forward.relative) {
    const std::size_t first = places.relative;
    // An activation: its gradient arrives in the accumulator dtype and is rounded once.
    call.dposition_key = zeros_of_sums(forward.relative->position_key);
    call.dcontent_bias = gradient_or_scratch(gradients, first + 1, forward.relative->content_bias);
    call.dposition_bias =
        gradient_or_scratch(gradients, first + 2, forward.relative->position_bias);
  }
  if (places.key_table_is_made)
    call.dkey_table = zeros_of_sums(forward.shaw->key_table);
  else if (places.key_table != 0)
    call.dkey_table = gradient_or_scratch(gradients, places.key_table, forward.shaw->key_table);
  if (places.value_table != 0)
    call.dvalue_table =
        gradient_or_scratch(gradients, places.value_table, forward.shaw->value_table);
  if (places.distance_bias != 0)
    call.ddistance_bias =
        gradient_or_scratch(gradients, places.distance_bias, forward.distance_bias);
  if (forward.span) call.dspan = gradient_or_scratch(gradients, places.span, forward.span->span);
  return call;
}

void add_term_gradients(BackwardContext& gradients,
                        const AttentionGradient& found,
                        const Attention& forward,
                        const TermPlaces& places) {
  if (forward.relative && gradients.needs_gradient(places.relative))
    gradients.set(places.relative,
                  to_dtype(found.dposition_key, forward.relative->position_key.dtype()));
  if (places.key_table_is_made && gradients.needs_gradient(places.key_table))
    gradients.set(places.key_table, to_dtype(found.dkey_table, forward.shaw->key_table.dtype()));
}

void join_sinks(const TermPlaces& places, const Tensor& out, const Tensor& log_sum_exp) {
  if (places.sinks == 0) return;
  on(out.device(),
     [&](auto backend) { join_sinks(backend, places.sink_values, out, log_sum_exp); });
}

void add_sink_gradients(BackwardContext& gradients,
                        const TermPlaces& places,
                        const Tensor& out,
                        const Tensor& log_sum_exp,
                        const Tensor& dout) {
  if (places.sinks == 0 || !gradients.needs_gradient(places.sinks)) return;
  const Shape& shape = out.shape();
  const Tensor rows = Tensor::empty({shape[0], shape[1], shape[2]},
                                    places.sink_values.dtype(),
                                    out.device(),
                                    MemoryTag::workspace);
  const Tensor sums = gradients.accumulate_target(places.sinks);
  on(out.device(), [&](auto backend) {
    sink_gradients(backend,
                   {.sink = places.sink_values,
                    .out = out,
                    .log_sum_exp = log_sum_exp,
                    .dout = dout,
                    .dsink = rows});
    add_column_sums(backend, rows.reshape({shape[0] * shape[1], shape[2]}), sums);
  });
}

}  // namespace longspan
