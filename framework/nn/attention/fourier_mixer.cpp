// Fourier transform over time and features (FNet, Lee-Thorp et al. 2021).
#include "framework/autograd/sequence_products.h"
#include "framework/autograd/token_mixing.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/token_mixer.h"

namespace longspan {
namespace {

constexpr const char* fnet = "fnet";

// A rank transforms equal parts of the features over time, and then adds its summand of every
// feature of the result.
class FourierMixer : public TokenMixer {
 public:
  FourierMixer(const Scope& scope, std::int64_t width, std::int64_t longest)
      : mesh_(scope.parameters().mesh()),
        region_(mesh_.tensor),
        features_(scope.part(width)),
        dtype_(accumulator_of(scope.parameters().compute_dtype())),
        over_time_(longest, dtype_, scope.parameters().device()),
        over_features_(fourier_features(width,
                                        features_.begin,
                                        features_.count,
                                        mesh_.context.size(),
                                        dtype_,
                                        scope.parameters().device())),
        repeated_features_(mesh_.context.size() == 1
                               ? over_features_
                               : fourier_features(width,
                                                  features_.begin,
                                                  features_.count,
                                                  1,
                                                  dtype_,
                                                  scope.parameters().device())) {}

  Variable operator()(const Variable& x,
                      const AttentionContext& context,
                      const ForwardContext& pass) const override {
    const AttentionMask& mask = context.mask;
    if (is_causal(mask, fnet, "it has no memory") || mask.max_lookback.defined())
      throw ConfigurationError("layer type fnet does not support masks");
    const Variable inside = region_.enter(x, pass.time);
    const auto shards = mixing_shards(mesh_, pass);
    const std::int64_t positions = pass.time.total > 0 ? pass.time.total : inside.shape()[1];
    check_mixing_length(fnet, over_time_.length(), positions);
    const Ranges own = pass.time.total > 0 ? pass.time.inside() : Ranges{{0, positions}};
    const Variable words = mask_padding(inside, own, mask.key_length, mask.key_padding);
    const Variable part = gather_positions(cast(features_of(words), dtype_), shards);
    const Variable spectrum = slice_sequence(over_time_(filled_up(part)), 0, positions);
    const Tensor& features = shards ? over_features_ : repeated_features_;
    Variable y = linear(own_positions(spectrum, shards), Variable(features), Variable());
    return cast(region_.leave(std::move(y), pass.time), x.value().dtype());
  }

 private:
  // This rank's features.
  Variable features_of(const Variable& x) const {
    const Shape& shape = x.shape();
    if (shape[2] == features_.count) return x;
    const Variable parts = reshape(x, {shape.rows(), shape[2] / features_.count, features_.count});
    return reshape(slice_sequence(parts, features_.begin / features_.count, 1),
                   shape.with(2, features_.count));
  }
  Variable filled_up(const Variable& x) const {
    const std::int64_t missing = over_time_.length() - x.shape()[1];
    if (missing == 0) return x;
    return concat_time(
        x, Variable(Tensor::zeros(x.shape().with(1, missing), dtype_, x.value().device())));
  }

  ProcessMesh mesh_;
  TensorParallelRegion region_;
  ShardRange features_;
  DType dtype_;
  FourierTransform over_time_;
  Tensor over_features_;
  Tensor repeated_features_;  // for passes in which every context rank has all positions
};

}  // namespace

AttentionKind fourier_kind() {
  return {.name = fnet,
          .sees = "all tokens of an encoder, by a Fourier transform",
          .alone = "it has no keys",
          .turns = true,
          .own_weights = true,
          .has_probabilities = false,
          .longest = longest_mixing,
          .problem = [](const AttentionOptions& options,
                        const AttentionBuildOptions& setting) -> std::string {
            const std::string problem = validate_encoder_mixing(fnet, options, setting);
            return problem.empty() ? validate_channel_sharding(
                                         fnet, "model.hidden_size", setting.width, setting.mesh)
                                   : problem;
          },
          .make_mixer = [](const Scope& scope,
                           const AttentionOptions& options,
                           const AttentionBuildOptions& setting) -> std::unique_ptr<TokenMixer> {
            throw_if_error(validate_encoder_mixing(fnet, options, setting));
            throw_if_error(validate_channel_sharding(
                fnet, "model.hidden_size", setting.width, scope.parameters().mesh().shape));
            return std::make_unique<FourierMixer>(
                scope, setting.width, mixing_length(fnet, options, setting));
          }};
}

}  // namespace longspan
