#include "framework/nn/attention/token_mixer.h"

#include "framework/autograd/collectives.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/linear_attention.h"

namespace longspan {

void declare(OptionTable& table, TokenMixingOptions& options) {
  table.add("model.attention.token_mixing.max_length",
            options.longest,
            "maximum sequence length in positions, for which the layers have weights; fnet fills "
            "up every sequence to it with zeros; none: that of the training data",
            between(1, std::int64_t{1} << 31),
            affects_weights(),
            only_with(layer_type({"aft_full", "aft_local", "fnet", "gmlp", "mlp_mixer"})));
  table.add("model.attention.aft_local.window",
            options.window,
            "window size w in positions: keys less than w positions away have position biases",
            between(1, 1 << 20),
            affects_weights(),
            only_with(layer_type({"aft_local"})));
  table.add("model.attention.gmlp.hidden_size",
            options.gate_hidden,
            "size of the hidden layer, half of which gates the other half; none: 4 times "
            "model.hidden_size",
            between(2, 1 << 20),
            affects_weights(),
            only_with(layer_type({"gmlp"})));
  table.add("model.attention.gmlp.num_heads",
            options.gate_heads,
            "number of spatial weight matrices, one for each equal part of the gate's features",
            between(1, 1 << 16),
            affects_weights(),
            only_with(layer_type({"gmlp"})));
  table.add("model.attention.gmlp.attention_size",
            options.gate_attention,
            "width of an attention head that is added to the gate (aMLP, Liu et al. 2021); 0: none",
            between(0, 1 << 16),
            affects_weights(),
            only_with(layer_type({"gmlp"})));
  table.add("model.attention.mlp_mixer.hidden_size",
            options.mixer_hidden,
            "size of the hidden layer over positions; none: half of model.hidden_size",
            between(1, 1 << 20),
            affects_weights(),
            only_with(layer_type({"mlp_mixer"})));
}

std::string validate_mixing(const std::string& kind,
                            const AttentionOptions& options,
                            const AttentionBuildOptions& setting,
                            bool has_length) {
  const std::optional<std::int64_t>& longest = options.mixing.longest;
  if (has_length && longest && setting.segment > *longest)
    return fmt::format(
        "model.attention.token_mixing.max_length: expected at least {} (positions of a sequence), "
        "found {}",
        setting.segment,
        *longest);
  return validate_memory(kind, setting);
}

std::string validate_encoder_mixing(const std::string& kind,
                                    const AttentionOptions& options,
                                    const AttentionBuildOptions& setting) {
  if (setting.causal)
    return fmt::format(
        "model.attention.layer_types: {} does not support causal models; use it in an encoder, or "
        "use aft_simple, aft_local, aft_full or gmlp",
        kind);
  return validate_mixing(kind, options, setting, true);
}

std::string validate_channel_sharding(const std::string& kind,
                                      const std::string& key,
                                      std::int64_t channels,
                                      const MeshShape& mesh) {
  if (channels % (std::int64_t{mesh.tensor} * mesh.context) == 0) return "";
  return fmt::format(
      "{}: layer type {} requires a multiple of {} x {} (tensor and context ranks), "
      "found {}",
      key,
      kind,
      mesh.tensor,
      mesh.context,
      channels);
}

std::int64_t longest_mixing(const AttentionOptions& options, std::int64_t segment) {
  return options.mixing.longest.value_or(segment);
}

std::int64_t mixing_length(const std::string& kind,
                           const AttentionOptions& options,
                           const AttentionBuildOptions& setting) {
  const std::int64_t longest = longest_mixing(options, setting.segment);
  if (longest == 0)
    throw ConfigurationError(
        "model.attention.layer_types: {} requires a maximum sequence length; set "
        "model.attention.token_mixing.max_length",
        kind);
  return longest;
}

void check_mixing_length(const std::string& kind, std::int64_t longest, std::int64_t positions) {
  if (positions > longest)
    throw ConfigurationError(
        "layer type {}: expected at most model.attention.token_mixing.max_length = {} positions, "
        "found {}",
        kind,
        longest,
        positions);
}

std::optional<SequenceShards> mixing_shards(const ProcessMesh& mesh, const ForwardContext& pass) {
  if (mesh.context.size() == 1 || pass.time.repeated) return std::nullopt;
  return sequence_shards(mesh, 0, pass.time.total);
}

Variable gather_positions(const Variable& x, const std::optional<SequenceShards>& shards) {
  if (!shards) return x;
  const Shape& shape = x.shape();
  const std::int64_t ranks = shards->ranks.size();
  const Variable all = sequence_to_heads(
      reshape(x, {shape[0], shape[1], ranks, shape[2] / ranks}), shards->key_rows(), shards->ranks);
  return reshape(all, {shape[0], all.shape()[1], shape[2] / ranks});
}

Variable own_positions(const Variable& y, const std::optional<SequenceShards>& shards) {
  if (!shards) return y;
  const Shape& shape = y.shape();
  const Variable own = heads_to_sequence(
      reshape(y, {shape[0], shape[1], 1, shape[2]}), shards->query_rows(), shards->ranks);
  return reshape(own, {shape[0], own.shape()[1], shape[2] * shards->ranks.size()});
}

}  // namespace longspan
