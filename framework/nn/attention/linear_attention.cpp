#include "framework/nn/attention/linear_attention.h"

#include "framework/core/dispatch.h"
#include "framework/kernels/attention/key_weights.h"
#include "framework/nn/attention/attention_kinds.h"

namespace longspan {

Tensor hidden_keys(const ProjectedQKV& input, const AttentionMask& mask) {
  if (!mask.key_padding.defined() && !mask.key_length.defined()) return {};
  const Tensor& key = input.key.value();
  const Shape& shape = key.shape();
  const Tensor log_weight =
      Tensor::zeros({shape[0], shape[1], shape[2]}, accumulator_of(key.dtype()), key.device());
  const Ranges positions =
      input.shares ? input.shares->keys[input.shares->local_index()] : Ranges{{0, shape[1]}};
  on(key.device(), [&](auto backend) {
    mask_keys(backend,
              {.padding = mask.key_padding,
               .length = mask.key_length,
               .positions = positions,
               .log_weight = log_weight});
  });
  return log_weight;
}

Variable linear_attend(const ProjectedQKV& input,
                       const Variable& log_weight,
                       const Variable& decay,
                       LinearAttentionOptions options) {
  if (input.state != nullptr) options.state = input.state->boundaries();
  return linear_attention(
      input.query, input.key, input.value, log_weight, decay, options, input.shares);
}

Variable LinearAttentionOp::operator()(const ProjectedQKV& input,
                                       const AttentionContext& context,
                                       const ForwardContext&) const {
  const bool causal = is_causal(context.mask, "linear", "its state covers one segment");
  const Variable hidden(hidden_keys(input, context.mask));
  return linear_attend(
      input,
      hidden,
      {},
      {.map = FeatureMap::elu_plus_one, .causal = causal, .divisor = Divisor::sum});
}

std::string validate_memory(const std::string& kind, const AttentionBuildOptions& setting) {
  if (!setting.memory) return "";
  return fmt::format("model.attention.layer_types: {} does not support model.mem_len", kind);
}

AttentionKind linear_kind() {
  return {.name = "linear",
          .sees = "as full, by products of features instead of a softmax",
          .alone = "it has no softmax",
          .supports_kv_cache = true,
          .has_probabilities = false,
          .problem =
              [](const AttentionOptions&, const AttentionBuildOptions& setting) {
                return validate_memory("linear", setting);
              },
          .make = [](const Scope&, const AttentionOptions&, const AttentionBuildOptions&)
              -> std::unique_ptr<AttentionOp> { return std::make_unique<LinearAttentionOp>(); }};
}

}  // namespace longspan
