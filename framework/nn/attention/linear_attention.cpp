#include "framework/nn/attention/linear_attention.h"

#include "framework/kernels/attention/key_weights.h"
#include "framework/nn/attention/kinds.h"

namespace longspan {

Tensor hidden_keys(const Projected& input, const AttentionMask& mask) {
  if (!mask.key_padding.defined() && !mask.key_length.defined()) return {};
  const Tensor& key = input.key.value();
  const Shape& shape = key.shape();
  const Tensor log_weight =
      Tensor::zeros({shape[0], shape[1], shape[2]}, accumulator_of(key.dtype()), key.device());
  const Ranges positions =
      input.shares ? input.shares->keys[input.shares->own()] : Ranges{{0, shape[1]}};
  on(key.device(), [&](auto backend) {
    hide_keys(backend,
              {.padding = mask.key_padding,
               .length = mask.key_length,
               .positions = positions,
               .log_weight = log_weight});
  });
  return log_weight;
}

Variable attend_by_features(const Projected& input,
                            const Variable& log_weight,
                            const Variable& decay,
                            FeatureAttention options) {
  if (input.state != nullptr) {
    const Shape& query = input.query.shape();
    if (!input.state->empty()) options.first = input.state->front();
    options.last = Tensor::empty({query[0], query[2], query[3], input.value.shape()[3] + 1},
                                 accumulator_of(input.query.value().dtype()),
                                 input.query.value().device(),
                                 MemoryTag::memory);
  }
  const Variable mixed = linear_attention(
      input.query, input.key, input.value, log_weight, decay, options, input.shares);
  if (input.state != nullptr) {
    if (input.state->empty()) input.state->emplace_back();
    input.state->front() = options.last;
  }
  return mixed;
}

Variable LinearMechanism::operator()(const Projected& input,
                                     const SegmentContext& context,
                                     const Pass&) const {
  const bool causal = is_causal(context.mask, "linear", "its state is that of a segment");
  const Variable hidden(hidden_keys(input, context.mask));
  return attend_by_features(
      input,
      hidden,
      {},
      {.map = FeatureMap::elu_plus_one, .causal = causal, .divisor = Divisor::sum});
}

std::string memory_problem(const std::string& kind, const AttentionSetting& setting) {
  if (!setting.memory) return "";
  return fmt::format(
      "model.attention.layer_types has {}, whose state begins anew with each segment: it cannot be "
      "with a "
      "memory of earlier segments",
      kind);
}

MechanismKind linear_kind() {
  return {
      .name = "linear",
      .sees =
          "every earlier key, in an encoder every key, by products of features in place of "
          "a softmax",
      .alone = "it is no softmax",
      .keys = {},
      .reads_on = true,
      .has_probabilities = false,
      .problem = [](const AttentionOptions&,
                    const AttentionSetting& setting) { return memory_problem("linear", setting); },
      .make = [](const Scope&, const AttentionOptions&, const AttentionSetting&)
          -> std::unique_ptr<Mechanism> { return std::make_unique<LinearMechanism>(); }};
}

}  // namespace longspan
