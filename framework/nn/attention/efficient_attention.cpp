#include "framework/nn/attention/efficient_attention.h"

#include "framework/autograd/random_features.h"
#include "framework/nn/attention/kinds.h"
#include "framework/nn/attention/linear_attention.h"

namespace longspan {

Variable EfficientMechanism::operator()(const Projected& input,
                                        const SegmentContext& context,
                                        const Pass&) const {
  if (is_causal(context.mask, "efficient", "its keys are weighed over a segment"))
    throw ConfigurationError(
        "attention efficient weighs keys over all positions: it is not causal");
  const Tensor hidden = hidden_keys(input, context.mask);
  Projected meeting = input;
  meeting.query = softmax_of_features(input.query);
  meeting.key = exponentials_of_positions(input.key, hidden, input.shares);
  return attend_by_features(meeting,
                            Variable(hidden),
                            {},
                            {.causal = false, .divisor = Divisor::none, .keys_sum_to_1 = true});
}

MechanismKind efficient_kind() {
  return {.name = "efficient",
          .sees = "in an encoder every key, by a softmax over features and one over positions",
          .alone = "its softmax is another",
          .keys = {},
          .has_probabilities = false,
          .problem = [](const AttentionOptions&, const AttentionSetting& setting) -> std::string {
            if (setting.causal)
              return "model.attention.layer_types has efficient, which weighs keys over all "
                     "positions: it "
                     "cannot be causal, as this family is; linear can";
            return memory_problem("efficient", setting);
          },
          .make = [](const Scope&, const AttentionOptions&, const AttentionSetting&)
              -> std::unique_ptr<Mechanism> { return std::make_unique<EfficientMechanism>(); }};
}

}  // namespace longspan
