#include "models/attention_ops.h"

#include "framework/nn/attention/softmax_attention.h"

namespace longspan {

AttentionOpFactory attention_ops(const Scope& stack,
                                 const ModelOptions& options,
                                 const PositionOptions& positions,
                                 const FamilyTraits& traits,
                                 std::int64_t segment) {
  const AttentionBuildOptions setting = options.attention_setting(traits, segment);
  const auto patterns = attention_patterns(options.attention, setting);
  const auto bias = distance_bias(stack, positions, options, traits.causal);
  return [=](const Scope& attention, std::int64_t layer) -> AttentionOrMixer {
    if (const AttentionKind* const own = attention_kind(options.attention, layer)) {
      AttentionBuildOptions of_layer = setting;
      of_layer.layer = layer;
      if (own->make_mixer != nullptr)
        return own->make_mixer(attention, options.attention, of_layer);
      return own->make(attention, options.attention, of_layer);
    }
    RelativeTerms distances = distance_terms(attention, positions, options);
    distances.bias = bias;
    return std::make_unique<SoftmaxAttention>(options.attention_dropout,
                                              patterns[static_cast<std::size_t>(layer)],
                                              std::move(distances),
                                              options.softmax_form(attention));
  };
}

}  // namespace longspan
