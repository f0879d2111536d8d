#include "framework/nn/attention/relative_attention.h"

#include "framework/nn/attention/softmax_attention.h"

namespace longspan {

PositionBiases::PositionBiases(const Scope& scope,
                               std::int64_t heads,
                               std::int64_t dim,
                               const Initializer& initial)
    : content(scope.no_decay_weight("content_bias", {heads, dim}, initial, 0)),
      position(scope.no_decay_weight("position_bias", {heads, dim}, initial, 0)) {}

RelativeAttention::RelativeAttention(const Scope& scope,
                                     const Options& options,
                                     const PositionBiases& biases,
                                     AttentionPattern pattern,
                                     SoftmaxOptions form)
    : heads_(scope.part(options.heads).count),
      dim_(options.dim),
      dropout_(options.dropout),
      region_(scope.parameters().mesh().tensor),
      position_(scope.child("position"),
                {.in = options.width,
                 .out = options.heads * options.dim,
                 .split = ParallelMode::columns,
                 .bias = false,
                 .initial = options.initial}),
      biases_(biases),
      pattern_(std::move(pattern)),
      form_(std::move(form)) {}

Variable RelativeAttention::distance_keys(const AttentionContext& context,
                                          const ForwardContext& pass) const {
  require(context.distances.defined(), "relative attention requires relative position encodings");
  const Variable keys = position_(region_.enter_replicated(context.distances, pass.time));
  return reshape(keys, {keys.shape()[0], heads_, dim_});
}

Variable RelativeAttention::operator()(const ProjectedQKV& input,
                                       const AttentionContext& context,
                                       const ForwardContext& pass) const {
  AttentionTerms terms = {.relative =
                              RelativeVariables{.position_key = input.distance_keys.defined()
                                                                    ? input.distance_keys
                                                                    : distance_keys(context, pass),
                                                .content_bias = biases_.content->variable,
                                                .position_bias = biases_.position->variable}};
  form_.add_to(terms);
  return attend(
      input,
      with_rules(context.mask, pattern_.rules(input.positions(context.mask)), input.heads),
      terms,
      probability_dropout(dropout_, input, context.mask, pass));
}

}  // namespace longspan
