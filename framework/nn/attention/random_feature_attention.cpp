
#include "framework/autograd/attention.h"
#include "framework/autograd/ops.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/nn/attention/random_projection.h"

namespace longspan {
namespace {

// Sums of features that may be negative can be near 0.
constexpr double smallest_divisor = 1e-3;

std::string validate_random_features(const AttentionOptions& options,
                                     const AttentionBuildOptions& setting) {
  if (!setting.causal && options.features.gate)
    return "model.attention.random_features.gated does not support bidirectional models; set it to "
           "false";
  return validate_memory("rfa", setting);
}

}  // namespace

RandomFeatureAttentionOp::RandomFeatureAttentionOp(const Scope& scope, const Options& options)
    : parameters_(&scope.parameters()),
      random_(Random(static_cast<std::uint64_t>(options.features.seed))
                  .child("projection")
                  .child(scope.path())),
      options_(options.features),
      count_(options.features.count.value_or(options.dim)),
      dim_(options.dim),
      deviation_(scope.no_decay_weight(
          "deviation", {options.heads, options.dim}, Initializer::constant(1), 0)) {
  if (options_.gate)
    gate_.emplace(
        scope.child("forget_gate"),
        Linear::Options{.in = options.width, .out = options.heads, .split = ParallelMode::columns});
}

const Tensor& RandomFeatureAttentionOp::projection(const ForwardContext& pass) const {
  const std::int64_t set =
      pass.training ? static_cast<std::int64_t>(pass.random.child("projection").word(0) %
                                                static_cast<std::uint32_t>(options_.draws))
                    : 0;
  Tensor& drawn = drawn_[set];
  if (!drawn.defined())
    drawn = gaussian_projection(random_.child(static_cast<std::uint64_t>(set)),
                                count_,
                                dim_,
                                parameters_->compute_dtype(),
                                parameters_->device());
  return drawn;
}

Variable RandomFeatureAttentionOp::features(const Variable& x, const ForwardContext& pass) const {
  const Variable scaled = scale_features(l2_normalize(x), deviation_->variable);
  return random_features(scaled, projection(pass), {.map = RandomMap::trigonometric}).features;
}

Variable RandomFeatureAttentionOp::operator()(const ProjectedQKV& input,
                                              const AttentionContext& context,
                                              const ForwardContext& pass) const {
  const bool causal = is_causal(context.mask, "rfa", "its state covers one segment");
  if (gate_ && !causal)
    throw ConfigurationError("the gate of attention type rfa requires a causal mask");
  ProjectedQKV meeting = input;
  meeting.query = features(input.query, pass);
  meeting.key = features(input.key, pass);
  Variable log_weight(hidden_keys(input, context.mask)), decay;
  if (gate_) {
    const GatedWeights gated = gated_weights((*gate_)(input.input, pass.of_all_rows()));
    decay = gated.decay;
    log_weight = log_weight.defined() ? add(gated.log_weight, log_weight) : gated.log_weight;
  }
  return linear_attend(
      meeting,
      log_weight,
      decay,
      {.causal = causal, .divisor = Divisor::away_from_0, .epsilon = smallest_divisor});
}

AttentionKind random_features_kind() {
  return {.name = "rfa",
          .sees = "as full, by random Fourier features and a decay gate",
          .alone = "it has no softmax",
          .supports_kv_cache = true,
          .turns = true,
          .own_weights = true,
          .has_probabilities = false,
          .problem = validate_random_features,
          .make = [](const Scope& attention,
                     const AttentionOptions& options,
                     const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
            return std::make_unique<RandomFeatureAttentionOp>(
                attention,
                RandomFeatureAttentionOp::Options{.features = options.features,
                                                  .heads = setting.heads,
                                                  .dim = setting.dim,
                                                  .width = setting.width});
          }};
}

}  // namespace longspan
