#include "framework/nn/attention/routing_attention.h"

#include <algorithm>
#include <cmath>

#include "framework/autograd/attention.h"
#include "framework/autograd/ops.h"
#include "framework/autograd/sequence_products.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/clusters.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"

namespace longspan {
namespace {

std::string validate_routing(const AttentionOptions& options,
                             const AttentionBuildOptions& setting) {
  if (setting.memory) return "model.attention.layer_types: routing does not support model.mem_len";
  if (options.routing.strict && !setting.causal)
    return "model.attention.routing.strictly_causal does not support bidirectional models; set it "
           "to false";
  if (options.routing.strict && !options.routing.shared)
    return "model.attention.routing.strictly_causal requires model.attention.routing.share_qk: "
           "true";
  return validate_head_sharding("routing", setting.heads, setting.mesh);
}

std::int64_t clusters_of(const RoutingOptions& options, const AttentionBuildOptions& setting) {
  if (options.clusters) return *options.clusters;
  if (setting.segment == 0)
    throw ConfigurationError(
        "model.attention.layer_types: routing requires a sequence length; set "
        "model.attention.routing.num_clusters");
  const double root = std::sqrt(static_cast<double>(setting.segment));
  return std::max<std::int64_t>(1, std::llround(root));
}

// Returns products of directions x [batch, time, heads, dim] with centroids [heads, clusters, dim],
// as [batch, heads, clusters, time].
Tensor similarities(const Tensor& directions, const Tensor& centroids) {
  const Shape& shape = directions.shape();
  const NoGradGuard unrecorded;
  const Variable scores =
      batched_matmul(Variable(centroids), to_heads_first(Variable(directions)), true);
  return scores.value().reshape({shape[0], shape[2], centroids.shape()[1], shape[1]});
}

Tensor directions_of(const Variable& x) {
  const NoGradGuard unrecorded;
  const DType wide = accumulator_of(x.value().dtype());
  return l2_normalize(cast(x.detach(), wide)).value();
}

}  // namespace

void declare(OptionTable& table, RoutingOptions& options) {
  table.add("model.attention.routing.num_clusters",
            options.clusters,
            "number of clusters per head; none: about sqrt(sequence length)",
            between(1, 1 << 20),
            affects_weights(),
            only_with(layer_type({"routing"})));
  table.add("model.attention.routing.window_size",
            options.width,
            "number of tokens per cluster, or with model.attention.routing.strictly_causal of "
            "previous tokens of the cluster that a token attends to; none: longest sequence of the "
            "batch / clusters",
            at_least(1),
            only_with(layer_type({"routing"})));
  table.add("model.attention.routing.share_qk",
            options.shared,
            "shared projection of queries and keys",
            affects_weights(),
            only_with(layer_type({"routing"})));
  table.add(
      "model.attention.routing.strictly_causal",
      options.strict,
      "attention to the last previous tokens of the own cluster, independent of later tokens; "
      "false: clusters take the nearest tokens of the whole segment (Roy et al. 2020)",
      only_with(layer_type({"routing"})));
  table.add("model.attention.routing.ema_decay",
            options.decay,
            "EMA decay of the centroids",
            between(0.0, 1.0),
            only_with(layer_type({"routing"})));
}

RoutingAttention::RoutingAttention(const Scope& scope, const Options& options)
    : options_(options.routing), dropout_(options.dropout) {
  throw_if_error(validate_head_sharding("routing", options.heads, scope.parameters().mesh().shape));
  centroids_ =
      scope.centroids("centroids", {options.heads, options.clusters, options.dim}, options_.decay);
}

// Decided once per step. A recomputed layer reuses the clusters and does not count its tokens
// twice. A pass without gradients that only queries the model does not count them.
Tensor RoutingAttention::decided(const Variable& x,
                                 std::int64_t head,
                                 const Tensor& length,
                                 const ForwardContext& pass) const {
  return pass.decide([&] {
    const Shape& shape = x.shape();
    const std::int64_t clusters = centroids_->centroids.shape()[1], end = head + shape[2];
    const Device& device = x.value().device();
    const Tensor directions = directions_of(x);
    const Tensor scores = similarities(directions, centroids_->centroids.slice(head, end));
    const Tensor cluster = Tensor::empty({shape[0], shape[2], 1, shape[1]}, DType::i32, device);
    if (pass.training || options_.strict)
      on(device, [&](auto backend) {
        nearest_cluster(backend, {.scores = scores, .cluster = cluster, .length = length});
      });
    if (pass.training && pass.updates_statistics)
      on(device, [&](auto backend) {
        add_cluster_sums(backend,
                         {.x = directions,
                          .cluster = cluster,
                          .sums = centroids_->sums.slice(head, end),
                          .counts = centroids_->counts.slice(head, end)});
      });
    if (options_.strict) return cluster;
    const std::int64_t even = (shape[1] + clusters - 1) / clusters;
    const std::int64_t width = std::min(options_.width.value_or(even), shape[1]);
    const Tensor position =
        Tensor::empty({shape[0], clusters, shape[2], width}, DType::i32, device);
    on(device, [&](auto backend) {
      cluster_members(backend, {.scores = scores, .position = position, .length = length});
    });
    return position;
  });
}

Variable RoutingAttention::operator()(const ProjectedQKV& input,
                                      const AttentionContext& context,
                                      const ForwardContext& pass) const {
  const bool causal = is_causal_only(context.mask, "routing");
  const Tensor& length = context.mask.key_length;
  const ProjectedQKV all = gather_sequence(input);
  const std::int64_t head = all.heads.begin - centroids_->head_begin;
  const bool wide = all.query.value().dtype() == DType::f64;
  const auto dropout = probability_dropout(dropout_, all, context.mask, pass);
  const std::optional<double> self_score =
      options_.shared ? std::optional(wide ? -1e5 : -1e3) : std::nullopt;
  const Variable key = options_.shared ? l2_normalize(all.query) : all.key;
  const Tensor queries = decided(all.query, head, length, pass.child("queries"));
  if (options_.strict) {
    const std::int64_t clusters = centroids_->centroids.shape()[1], time = all.query.shape()[1];
    return local_shard(
        clustered_attention(all.query,
                            key,
                            all.value,
                            {.cluster = queries,
                             .clusters = clusters,
                             .width = options_.width.value_or((time + clusters - 1) / clusters),
                             .self_score = self_score},
                            dropout),
        input);
  }
  const Tensor keys =
      options_.shared ? queries : decided(all.key, head, length, pass.child("keys"));
  return local_shard(routed_attention(all.query,
                                      key,
                                      all.value,
                                      {.query_position = queries,
                                       .key_position = keys,
                                       .causal = causal,
                                       .self_score = self_score},
                                      dropout),
                     input);
}

AttentionKind routing_kind() {
  return {.name = "routing",
          .sees = "tokens of the same cluster",
          .alone = "its queries and keys may be one projection",
          .turns = true,
          .own_weights = true,
          .problem = validate_routing,
          .make = [](const Scope& attention,
                     const AttentionOptions& options,
                     const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
            throw_if_error(validate_routing(options, setting));
            return std::make_unique<RoutingAttention>(
                attention,
                RoutingAttention::Options{.routing = options.routing,
                                          .clusters = clusters_of(options.routing, setting),
                                          .heads = setting.heads,
                                          .dim = setting.dim,
                                          .dropout = setting.dropout});
          }};
}

}  // namespace longspan
