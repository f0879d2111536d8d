// Token mixing of MLP-Mixer (Tolstikhin et al. 2021).
#include "framework/autograd/sequence_products.h"
#include "framework/autograd/token_mixing.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/token_mixer.h"

namespace longspan {
namespace {

constexpr const char* mlp_mixer = "mlp_mixer";

// The hidden layer is split over the tensor ranks, each of which has a summand of the result.
class MlpMixer : public TokenMixer {
 public:
  MlpMixer(const Scope& scope, std::int64_t hidden, std::int64_t longest)
      : mesh_(scope.parameters().mesh()),
        region_(mesh_.tensor),
        longest_(longest),
        in_(scope.child("in").weight(
            "weight", {hidden, longest}, Initializer::xavier(longest, hidden), 0)),
        in_bias_(scope.child("in").bias(hidden, 0)),
        out_(scope.child("out").weight(
            "weight", {longest, hidden}, Initializer::xavier(hidden, longest), 1)),
        out_bias_(
            scope.child("out").replicated_weight("bias", {longest}, Initializer::constant(0))) {}

  Variable operator()(const Variable& x,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override {
    const AttentionMask& mask = context.mask;
    if (is_causal(mask, mlp_mixer, "it has no memory") || mask.max_lookback.defined())
      throw ConfigurationError("layer type mlp_mixer does not support masks");
    const Variable inside = region_.enter(x, pass.time);
    const auto shards = mixing_shards(mesh_, pass);
    const std::int64_t positions = pass.time.total > 0 ? pass.time.total : inside.shape()[1];
    check_mixing_length(mlp_mixer, longest_, positions);
    const Ranges own = pass.time.total > 0 ? pass.time.inside() : Ranges{{0, positions}};
    const Variable words = mask_padding(inside, own, mask.key_length, mask.key_padding);
    Variable y =
        own_positions(mix_tokens(gather_positions(words, shards), weights(positions)), shards);
    return region_.leave(std::move(y), pass.time);
  }

 private:
  // The leading positions of the weights. Each tensor rank adds an equal part of the last bias.
  TokenMixingWeights weights(std::int64_t positions) const {
    const std::int64_t hidden = in_->shape[0];
    const auto crop = [](const Variable& x, std::int64_t rows, std::int64_t columns) {
      const Shape& shape = x.shape();
      return reshape(
          crop_matrices(
              reshape(x, {1, shape[0], shape.elements() / shape[0]}), 0, rows, columns, false),
          {rows, columns});
    };
    return {
        .in = crop(in_->variable, hidden, positions),
        .in_bias = in_bias_->variable,
        .out = crop(out_->variable, positions, hidden),
        .out_bias = multiply_scalar(
            reshape(crop(reshape(out_bias_->variable, {longest_, 1}), positions, 1), {positions}),
            1.0 / mesh_.tensor.size())};
  }

  ProcessMesh mesh_;
  TensorParallelRegion region_;
  std::int64_t longest_;
  Weight in_;
  Weight in_bias_;
  Weight out_;
  Weight out_bias_;
};

std::int64_t mixer_hidden(const AttentionOptions& options, const AttentionBuildOptions& setting) {
  return options.mixing.mixer_hidden.value_or(std::max<std::int64_t>(1, setting.width / 2));
}

std::string validate_mixer_width(std::int64_t width, const MeshShape& mesh) {
  MeshShape context = mesh;
  context.tensor = 1;
  return validate_channel_sharding(mlp_mixer, "model.hidden_size", width, context);
}

}  // namespace

AttentionKind mlp_mixer_kind() {
  return {.name = mlp_mixer,
          .sees = "all tokens of an encoder, by a learned network over positions",
          .alone = "it has no keys",
          .turns = true,
          .own_weights = true,
          .has_probabilities = false,
          .longest = longest_mixing,
          .problem = [](const AttentionOptions& options,
                        const AttentionBuildOptions& setting) -> std::string {
            const std::string problem = validate_encoder_mixing(mlp_mixer, options, setting);
            return problem.empty() ? validate_mixer_width(setting.width, setting.mesh) : problem;
          },
          .make_mixer = [](const Scope& scope,
                           const AttentionOptions& options,
                           const AttentionBuildOptions& setting) -> std::unique_ptr<TokenMixer> {
            throw_if_error(validate_encoder_mixing(mlp_mixer, options, setting));
            throw_if_error(validate_mixer_width(setting.width, scope.parameters().mesh().shape));
            return std::make_unique<MlpMixer>(
                scope, mixer_hidden(options, setting), mixing_length(mlp_mixer, options, setting));
          }};
}

}  // namespace longspan
