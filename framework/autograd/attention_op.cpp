#include "framework/autograd/ops.h"

namespace longspan {
namespace {

Tensor gradient_or_scratch(Gradients& gradients, std::size_t input, const Tensor& value) {
  return gradients.wanted(input)
             ? gradients.target_to_add(input)
             : Tensor::zeros(value.shape(), accumulator_of(value.dtype()), value.device());
}

// position_key is an activation: its gradient arrives in the accumulator dtype and is rounded once.
void relative_gradients(Gradients& gradients, const Attention& forward, AttentionGradient& call) {
  call.dcontent_bias = gradient_or_scratch(gradients, 4, forward.relative->content_bias);
  call.dposition_bias = gradient_or_scratch(gradients, 5, forward.relative->position_bias);
  const Tensor& position_key = forward.relative->position_key;
  call.dposition_key = Tensor::zeros(
      position_key.shape(), accumulator_of(position_key.dtype()), position_key.device());
}

void attention_gradients(Gradients& gradients, const Attention& forward) {
  AttentionGradient call = {.forward = forward,
                            .dout = gradients.output(),
                            .dquery = forward.query.like(),
                            .dkey = forward.key.like(),
                            .dvalue = forward.value.like()};
  if (forward.relative) relative_gradients(gradients, forward, call);
  on(call.dout.device(), [&](auto backend) { attention_backward(backend, call); });
  const Tensor* const results[] = {&call.dquery, &call.dkey, &call.dvalue};
  for (std::size_t input = 0; input < 3; ++input)
    if (gradients.wanted(input)) gradients.give(input, *results[input]);
  if (forward.relative && gradients.wanted(3)) {
    Variable rounded = cast(Variable(call.dposition_key), forward.relative->position_key.dtype());
    gradients.give(3, rounded.value());
  }
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
  call.slopes = terms.slopes;
  call.hash = terms.hash;
  call.scale = terms.scale;
  if (terms.relative) {
    const RelativeVariables* const relative = &*terms.relative;
    call.relative = RelativeTerm{.position_key = relative->position_key.value(),
                                 .content_bias = relative->content_bias.value(),
                                 .position_bias = relative->position_bias.value()};
    inputs.insert(inputs.end(),
                  {relative->position_key, relative->content_bias, relative->position_bias});
  }
  if (dropout && dropout->rate > 0) call.dropout = dropout;
  call.out = Tensor::empty(q.shape().with(-1, value.shape()[-1]), q.dtype(), q.device());
  call.log_sum_exp = Tensor::empty(
      {q.shape()[0], q.shape()[2], q.shape()[1]}, accumulator_of(q.dtype()), q.device());
  on(q.device(), [&](auto backend) { attention(backend, call); });
  Tensor out = call.out;
  return record(std::move(out), inputs, [call = std::move(call)](Gradients& gradients) {
    attention_gradients(gradients, call);
  });
}

}  // namespace longspan
