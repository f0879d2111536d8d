#include "framework/nn/attention/linformer_attention.h"

#include <cmath>

#include "framework/autograd/collectives.h"
#include "framework/autograd/sequence_products.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/attention_op.h"
#include "framework/nn/attention/softmax_attention.h"

namespace longspan {
namespace {

std::string validate_linformer(const AttentionOptions& options,
                               const AttentionBuildOptions& setting) {
  if (setting.memory)
    return "model.attention.layer_types: linformer does not support model.mem_len";
  if (setting.causal)
    return "model.attention.layer_types: linformer does not support causal models";
  const std::optional<std::int64_t>& longest = options.linformer.longest;
  if (longest && setting.segment > *longest)
    return fmt::format(
        "model.attention.linformer.max_length: expected at least {} (positions of a "
        "sequence), found {}",
        setting.segment,
        *longest);
  return "";
}

std::int64_t longest_of(const LinformerOptions& options, const AttentionBuildOptions& setting) {
  const std::int64_t longest = options.longest.value_or(setting.segment);
  if (longest == 0)
    throw ConfigurationError(
        "model.attention.layer_types: linformer requires a maximum sequence "
        "length; set model.attention.linformer.max_length");
  return longest;
}

Weight projection(const Scope& scope,
                  const std::string& name,
                  const LinformerAttention::Options& options) {
  const std::int64_t keys = options.linformer.keys;
  const Initializer initial = Initializer::uniform(1 / std::sqrt(static_cast<double>(keys)));
  switch (options.linformer.sharing) {
    case LinformerSharing::none:
      return scope.weight(name, {options.heads, options.longest, keys}, initial, 0);
    case LinformerSharing::layers:
      return scope.inside_weight_of_model(name, {1, options.longest, keys}, initial);
    default:
      return scope.replicated_weight(name, {1, options.longest, keys}, initial);
  }
}

}  // namespace

void declare(OptionTable& table, LinformerOptions& options) {
  table.add("model.attention.linformer.projected_length",
            options.keys,
            "number of keys and values that a sequence is projected to",
            between(1, 1 << 20),
            affects_weights(),
            only_with(layer_type({"linformer"})));
  table.add("model.attention.linformer.sharing",
            options.sharing,
            "parameter sharing of the projections: none, headwise (across the heads of a layer), "
            "key_value (also between keys and values) or layerwise (also across layers)",
            {{"none", LinformerSharing::none},
             {"headwise", LinformerSharing::heads},
             {"key_value", LinformerSharing::keys_values},
             {"layerwise", LinformerSharing::layers}},
            affects_weights(),
            only_with(layer_type({"linformer"})));
  table.add("model.attention.linformer.max_length",
            options.longest,
            "maximum sequence length in positions, one row of the projections each; none: that of "
            "the training data",
            between(1, std::int64_t{1} << 31),
            affects_weights(),
            only_with(layer_type({"linformer"})));
}

LinformerAttention::LinformerAttention(const Scope& scope, const Options& options)
    : longest_(options.longest),
      dropout_(options.dropout),
      keys_(projection(scope, "linformer_keys", options)),
      values_(options.linformer.sharing == LinformerSharing::none ||
                      options.linformer.sharing == LinformerSharing::heads
                  ? projection(scope, "linformer_values", options)
                  : keys_) {}

Variable LinformerAttention::project(const Variable& x,
                                     const Weight& weight,
                                     const ProjectedQKV& input) const {
  const Ranges positions = key_positions(input);
  const bool by_head = weight->split();
  Variable y =
      by_head ? to_heads_inner(project_sequence(to_heads_first(x), weight->variable, positions),
                               x.shape()[2])
              : project_sequence(x, weight->variable, positions);
  if (!input.shares) return y;
  const Communicator& ranks = input.shares->ranks;
  return copy_to_tensor_parallel_region(reduce_from_tensor_parallel_region(std::move(y), ranks),
                                        ranks);
}

Variable LinformerAttention::operator()(const ProjectedQKV& input,
                                        const AttentionContext& context,
                                        const ForwardContext& pass) const {
  const AttentionMask& mask = context.mask;
  if (!mask.rules.one_for_all() || mask.rules.of(0) != masks::everything())
    throw ConfigurationError("attention type linformer does not support masks");
  if (mask.query_begin != 0 || mask.key_begin != 0)
    throw ConfigurationError("attention type linformer does not support mem_len > 0");
  if (input.positions(context.mask) > longest_)
    throw ConfigurationError(
        "expected at most model.attention.linformer.max_length = {} positions, found {}",
        longest_,
        input.positions(context.mask));
  const auto projected = [&](const Variable& x, const Weight& weight) {
    return project(
        mask_padding(x, key_positions(input), mask.key_length, mask.key_padding), weight, input);
  };
  return attend_replicated_keys(input,
                                projected(input.key, keys_),
                                projected(input.value, values_),
                                probability_dropout(dropout_, input, context.mask, pass));
}

AttentionKind linformer_kind() {
  return {
      .name = "linformer",
      .sees = "all tokens of an encoder, projected to a few keys",
      .alone = "its keys are not tokens",
      .own_weights = true,
      .longest = [](const AttentionOptions& options,
                    std::int64_t segment) { return options.linformer.longest.value_or(segment); },
      .problem = validate_linformer,
      .make = [](const Scope& attention,
                 const AttentionOptions& options,
                 const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
        throw_if_error(validate_linformer(options, setting));
        return std::make_unique<LinformerAttention>(
            attention,
            LinformerAttention::Options{.linformer = options.linformer,
                                        .longest = longest_of(options.linformer, setting),
                                        .heads = setting.heads,
                                        .dropout = setting.dropout});
      }};
}

}  // namespace longspan
