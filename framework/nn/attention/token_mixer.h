// Layers that mix tokens in place of multi-head attention, with their own projections.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "framework/nn/attention/attention_kind.h"
#include "framework/nn/layers.h"
#include "framework/options/options.h"

namespace longspan {

class TokenMixer {
 public:
  virtual ~TokenMixer() = default;
  // x: [batch, time, width], outside split regions. Returns the same shape.
  virtual Variable operator()(const Variable& x,
                              const AttentionContext& context,
                              const ForwardContext& pass) const = 0;
};

// Options of layer types that mix positions by matrices or sums.
struct TokenMixingOptions {
  std::optional<std::int64_t> longest = {};      // positions of the weights; none: of training data
  std::int64_t window = 32;                      // of aft_local
  std::optional<std::int64_t> gate_hidden = {};  // of gmlp; none: 4 times the width
  std::int64_t gate_heads = 1;                   // of gmlp
  std::int64_t gate_attention = 0;               // width of gmlp's attention; 0: none
  std::optional<std::int64_t> mixer_hidden = {};  // of mlp_mixer; none: half of the width
};
// Declares the keys model.attention.token_mixing.*, aft_local.*, gmlp.* and mlp_mixer.*.
void declare(OptionTable& table, TokenMixingOptions& options);

// Returns the reason why a model does not support a type of these. Otherwise empty. `has_length`:
// it has weights of positions.
std::string validate_mixing(const std::string& kind,
                            const AttentionOptions& options,
                            const AttentionBuildOptions& setting,
                            bool has_length);
// As above, for a type that also mixes later positions.
std::string validate_encoder_mixing(const std::string& kind,
                                    const AttentionOptions& options,
                                    const AttentionBuildOptions& setting);
// As above, for features of which each rank that shares heads or time mixes an equal number. `key`:
// the key that sets their number.
std::string validate_channel_sharding(const std::string& kind,
                                      const std::string& key,
                                      std::int64_t channels,
                                      const MeshShape& mesh);

// AttentionKind::longest of the types with weights of positions.
std::int64_t longest_mixing(const AttentionOptions& options, std::int64_t segment);
// Returns the positions of the weights. Throws ConfigurationError if neither the options nor the
// training data limit the length.
std::int64_t mixing_length(const std::string& kind,
                           const AttentionOptions& options,
                           const AttentionBuildOptions& setting);
// Throws ConfigurationError if a sequence has more positions than the weights.
void check_mixing_length(const std::string& kind, std::int64_t longest, std::int64_t positions);

// Returns the positions of this pass over the context ranks; none if each rank has all of them.
std::optional<SequenceShards> mixing_shards(const ProcessMesh& mesh, const ForwardContext& pass);

// Exchanges positions for channels over the context ranks. x: [batch, own keys, channels]. Returns
// [batch, all keys, channels / ranks]. Requires divisible channels.
Variable gather_positions(const Variable& x, const std::optional<SequenceShards>& shards);
// Inverse, for the queries. y: [batch, all queries, channels / ranks].
Variable own_positions(const Variable& y, const std::optional<SequenceShards>& shards);

// FNet (Lee-Thorp et al. 2021): no parameters. Sequences end with zeros up to the trained length.
AttentionKind fourier_kind();
// Gating unit of gMLP (Liu et al. 2021). Linear layers "in" and "in_gate" (the two halves of the
// hidden layer) and "out"; "gate_norm", "spatial_weight" [heads, longest, longest] and
// "spatial_bias" [heads * longest]. With attention also "attention_query_key_value" and
// "attention_out".
AttentionKind spatial_gating_kind();
// Token mixing of MLP-Mixer (Tolstikhin et al. 2021). Layers over positions "in" and "out".
AttentionKind mlp_mixer_kind();

}  // namespace longspan
