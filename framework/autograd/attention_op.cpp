#include "framework/autograd/ops.h"

namespace longspan {
namespace {

// Where each term's variables stand among the inputs of the op, after query, key and value.
struct Places {
  std::size_t relative = 0;
  std::size_t key_table = 0;
  std::size_t value_table = 0;
  std::size_t span = 0;
};

Tensor zeros_of_sums(const Tensor& value) {
  return Tensor::zeros(value.shape(), accumulator_of(value.dtype()), value.device());
}

// Biases, tables and spans are parameters, whose gradients are collected as sums.
Tensor gradient_or_scratch(Gradients& gradients, std::size_t input, const Tensor& value) {
  return gradients.wanted(input) ? gradients.target_to_add(input) : zeros_of_sums(value);
}

void term_gradients(Gradients& gradients,
                    const Attention& forward,
                    const Places& places,
                    AttentionGradient& call) {
  if (forward.relative) {
    const std::size_t first = places.relative;
    // An activation: its gradient arrives in the accumulator dtype and is rounded once.
    call.dposition_key = zeros_of_sums(forward.relative->position_key);
    call.dcontent_bias = gradient_or_scratch(gradients, first + 1, forward.relative->content_bias);
    call.dposition_bias =
        gradient_or_scratch(gradients, first + 2, forward.relative->position_bias);
  }
  if (places.key_table != 0)
    call.dkey_table = gradient_or_scratch(gradients, places.key_table, forward.shaw->key_table);
  if (places.value_table != 0)
    call.dvalue_table =
        gradient_or_scratch(gradients, places.value_table, forward.shaw->value_table);
  if (forward.span) call.dspan = gradient_or_scratch(gradients, places.span, forward.span->span);
}

void attention_gradients(Gradients& gradients, const Attention& forward, const Places& places) {
  AttentionGradient call = {.forward = forward,
                            .dout = gradients.output(),
                            .dquery = forward.query.like(),
                            .dkey = forward.key.like(),
                            .dvalue = forward.value.like()};
  term_gradients(gradients, forward, places, call);
  on_or_dry(call.dout.device(), [&](auto backend) { attention_backward(backend, call); });
  const Tensor* const results[] = {&call.dquery, &call.dkey, &call.dvalue};
  for (std::size_t input = 0; input < 3; ++input)
    if (gradients.wanted(input)) gradients.give(input, *results[input]);
  if (forward.relative && gradients.wanted(places.relative)) {
    Variable rounded = cast(Variable(call.dposition_key), forward.relative->position_key.dtype());
    gradients.give(places.relative, rounded.value());
  }
}

// Sets the terms of the call and adds their variables to the inputs.
Places add_terms(const AttentionTerms& terms, Attention& call, std::vector<Variable>& inputs) {
  Places places;
  const auto input = [&](const Variable& variable) {
    inputs.push_back(variable);
    return inputs.size() - 1;
  };
  call.slopes = terms.slopes;
  call.hash = terms.hash;
  call.scale = terms.scale;
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
    if (shaw->key_table.defined()) {
      call.shaw->key_table = shaw->key_table.value();
      places.key_table = input(shaw->key_table);
    }
    if (shaw->value_table.defined()) {
      call.shaw->value_table = shaw->value_table.value();
      places.value_table = input(shaw->value_table);
    }
  }
  if (const auto& span = terms.span) {
    call.span = SpanTerm{
        .span = span->span.value(), .ramp = span->ramp, .first = span->first, .floor = span->floor};
    places.span = input(span->span);
  }
  return places;
}

}  // namespace

Variable attention(const Variable& query,
                   const Variable& key,
                   const Variable& value,
                   const AttentionMask& mask,
                   const AttentionTerms& terms,
                   const std::optional<AttentionDropout>& dropout) {
  const Tensor& q = query.value();
  Attention call;
  call.query = q;
  call.key = key.value();
  call.value = value.value();
  call.mask = mask;
  std::vector<Variable> inputs = {query, key, value};
  const Places places = add_terms(terms, call, inputs);
  if (dropout && dropout->rate > 0) call.dropout = dropout;
  call.out = Tensor::empty(q.shape().with(-1, value.shape()[-1]), q.dtype(), q.device());
  call.log_sum_exp = Tensor::empty(
      {q.shape()[0], q.shape()[2], q.shape()[1]}, accumulator_of(q.dtype()), q.device());
  on_or_dry(q.device(), [&](auto backend) { attention(backend, call); });
  Tensor out = call.out;
  return record(std::move(out), inputs, [call = std::move(call), places](Gradients& gradients) {
    attention_gradients(gradients, call, places);
  });
}

}  // namespace longspan
