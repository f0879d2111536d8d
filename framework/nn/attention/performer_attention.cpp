
#include <cmath>

#include "framework/autograd/attention.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/nn/attention/random_projection.h"

namespace longspan {
namespace {

// Affects only queries without visible keys.
constexpr double smallest_sum = 1e-30;

std::int64_t default_count(std::int64_t dim) {
  const double wanted = static_cast<double>(dim) * std::log(static_cast<double>(dim));
  return std::max<std::int64_t>(1, std::llround(wanted));
}

}  // namespace

void declare(OptionTable& table, RandomFeatureOptions& options) {
  table.add("model.attention.random_features.num_features",
            options.count,
            "number of random vectors per head; none: model.head_dim x ln(model.head_dim) for "
            "performer, model.head_dim for rfa, which uses a sine and a cosine of each",
            between(1, 1 << 16),
            only_with(layer_type({"performer", "rfa"})));
  table.add("model.attention.random_features.seed",
            options.seed,
            "seed of the random vectors",
            at_least(0),
            only_with(layer_type({"performer", "rfa"})));
  table.add("model.attention.random_features.kernel",
            options.kernel,
            "kernel that the random features approximate: softmax, or relu with features max(u, 0) "
            "+ 0.001",
            {{"softmax", RandomMap::softmax}, {"relu", RandomMap::relu}},
            only_with(layer_type({"performer"})));
  table.add("model.attention.random_features.redraw_interval",
            options.redraw,
            "training steps between redraws of the random vectors; 0: never redrawn",
            at_least(0),
            only_with(layer_type({"performer"})));
  table.add("model.attention.random_features.num_draws",
            options.draws,
            "number of sets of random vectors, one of which each training step uses",
            between(1, 1 << 16),
            only_with(layer_type({"rfa"})));
  table.add("model.attention.random_features.gated",
            options.gate,
            "per-head gate that decays the state of previous tokens, for causal models (Peng et "
            "al. 2021)",
            affects_weights(),
            only_with(layer_type({"rfa"})));
}

PerformerAttentionOp::PerformerAttentionOp(const Scope& scope, const Options& options)
    : parameters_(&scope.parameters()),
      random_(Random(static_cast<std::uint64_t>(options.features.seed))
                  .child("projection")
                  .child(scope.path())),
      redraw_(options.features.redraw),
      count_(options.features.count.value_or(default_count(options.dim))),
      dim_(options.dim),
      map_{.map = options.features.kernel,
           .scale = std::pow(static_cast<double>(options.dim), -0.25),
           .log_gradients = options.features.kernel == RandomMap::softmax} {}

const Tensor& PerformerAttentionOp::projection(const ForwardContext& pass) const {
  const std::int64_t steps = parameters_->steps();
  const std::int64_t seen = pass.training ? steps : std::max<std::int64_t>(0, steps - 1);
  const std::int64_t wanted = redraw_ > 0 ? seen / redraw_ : 0;
  if (drawn_ != wanted) {
    projection_ = orthogonal_projection(random_.child(static_cast<std::uint64_t>(wanted)),
                                        count_,
                                        dim_,
                                        parameters_->compute_dtype(),
                                        parameters_->device());
    drawn_ = wanted;
  }
  return projection_;
}

Variable PerformerAttentionOp::operator()(const ProjectedQKV& input,
                                          const AttentionContext& context,
                                          const ForwardContext& pass) const {
  const bool causal = is_causal(context.mask, "performer", "its state covers one segment");
  const StabilizedFeatures query = random_features(input.query, projection(pass), map_);
  const StabilizedFeatures key = random_features(input.key, projection(pass), map_);
  Tensor log_weight = hidden_keys(input, context.mask), decay;
  if (key.shift.defined()) {
    if (log_weight.defined())
      on(key.shift.device(), [&](auto backend) { accumulate(backend, 1, log_weight, key.shift); });
    // The largest shift so far has no gradient: it cancels in the result.
    const ChunkBoundaries top = input.state ? input.state->boundaries(1) : ChunkBoundaries();
    Tensor last;
    if (top.needs_final())
      last = top.after->value = Tensor::empty({key.shift.shape()[0], key.shift.shape()[2]},
                                              key.shift.dtype(),
                                              key.shift.device(),
                                              MemoryTag::recurrent_state);
    const KeyWeights weights =
        weights_of_stabilizers(key.shift, causal, input.shares, top.initial(), last);
    log_weight = weights.log_weight;
    decay = weights.decay;
  }
  ProjectedQKV meeting = input;
  meeting.query = query.features;
  meeting.key = key.features;
  return linear_attend(meeting,
                       Variable(log_weight),
                       Variable(decay),
                       {.map = map_.log_gradients ? FeatureMap::exponential : FeatureMap::identity,
                        .causal = causal,
                        .divisor = Divisor::sum,
                        .epsilon = smallest_sum});
}

AttentionKind performer_kind() {
  return {.name = "performer",
          .sees = "as full, by random features that approximate the softmax",
          .alone = "it has no softmax",
          .supports_kv_cache = true,
          .turns = true,
          .has_probabilities = false,
          .problem =
              [](const AttentionOptions&, const AttentionBuildOptions& setting) {
                return validate_memory("performer", setting);
              },
          .make = [](const Scope& attention,
                     const AttentionOptions& options,
                     const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
            return std::make_unique<PerformerAttentionOp>(
                attention,
                PerformerAttentionOp::Options{.features = options.features, .dim = setting.dim});
          }};
}

}  // namespace longspan
