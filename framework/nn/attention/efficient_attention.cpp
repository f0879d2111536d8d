
#include "framework/autograd/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/linear_attention.h"

namespace longspan {

Variable EfficientAttentionOp::operator()(const ProjectedQKV& input,
                                          const AttentionContext& context,
                                          const ForwardContext&) const {
  if (is_causal(context.mask, "efficient", "its keys are weighed over a segment"))
    throw ConfigurationError("attention type efficient does not support causal masks");
  const Tensor hidden = hidden_keys(input, context.mask);
  ProjectedQKV meeting = input;
  meeting.query = softmax_of_features(input.query);
  meeting.key = exponentials_of_positions(input.key, hidden, input.shares);
  return linear_attend(meeting,
                       Variable(hidden),
                       {},
                       {.causal = false, .divisor = Divisor::none, .softmax_keys = true});
}

AttentionKind efficient_kind() {
  return {
      .name = "efficient",
      .sees = "all keys of an encoder, by a softmax over features and one over positions",
      .alone = "its softmax is not over keys",
      .has_probabilities = false,
      .problem = [](const AttentionOptions&, const AttentionBuildOptions& setting) -> std::string {
        if (setting.causal)
          return "model.attention.layer_types: efficient does not support causal models; use "
                 "linear";
        return validate_memory("efficient", setting);
      },
      .make = [](const Scope&, const AttentionOptions&, const AttentionBuildOptions&)
          -> std::unique_ptr<AttentionOp> { return std::make_unique<EfficientAttentionOp>(); }};
}

}  // namespace longspan
