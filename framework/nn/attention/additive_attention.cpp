#include "framework/nn/attention/additive_attention.h"

#include <algorithm>

#include "framework/autograd/attention.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/additive.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/positions.h"

namespace longspan {
namespace {

// Returns an error message if a head is too wide for the scores. Otherwise empty.
std::string validate_width(std::int64_t dim) {
  if (dim <= widest_additive_head) return "";
  return fmt::format(
      "additive attention: expected at most {} features per head, found {}; set "
      "model.num_attention_heads or model.head_dim",
      widest_additive_head,
      dim);
}

std::string validate_additive(const AttentionOptions&, const AttentionBuildOptions& setting) {
  if (setting.memory) return "model.attention.layer_types: additive does not support model.mem_len";
  if (const std::string problem = validate_width(setting.dim); !problem.empty()) return problem;
  return validate_head_sharding("additive", setting.heads, setting.mesh);
}

AdditiveRules rules_of(const AttentionMask& mask) {
  const bool causal = mask.rules.one_for_all() && mask.rules.of(0) == masks::causal();
  const bool everything = mask.rules.one_for_all() && mask.rules.of(0) == masks::everything();
  if (!causal && !everything)
    throw ConfigurationError("attention type additive supports only full and causal masks");
  return {.causal = causal,
          .query_begin = mask.query_begin,
          .key_begin = mask.key_begin,
          .length = mask.key_length,
          .padding = mask.key_padding};
}

// Returns heads [begin, begin + count) of a weight [heads, ...] of this rank.
Variable heads_of(const Weight& weight, std::int64_t begin, std::int64_t count) {
  const Variable& all = weight->variable;
  const Shape& shape = all.shape();
  if (count == shape[0]) return all;
  const Variable rows = reshape(all, {shape[0], all.shape().elements() / shape[0]});
  return reshape(table_rows(rows, {{begin, begin + count}}), shape.with(0, count));
}

// Resizes the previous query's probabilities [batch, heads, n] to the current number of keys. A KV
// cache may have a different capacity, whose unused part has probability zero.
Tensor of_keys(const Tensor& looked, std::int64_t keys) {
  const Shape& shape = looked.shape();
  if (shape[2] == keys) return looked;
  const std::int64_t rows = shape[0] * shape[1];
  const Tensor result = Tensor::zeros(shape.with(2, keys), looked.dtype(), looked.device());
  on(looked.device(), [&](auto backend) {
    copy_rows(backend,
              looked.reshape({rows, shape[2], 1}),
              0,
              result.reshape({rows, keys, 1}),
              0,
              std::min(keys, shape[2]),
              false);
  });
  return result;
}

}  // namespace

AdditiveAttentionOp::AdditiveAttentionOp(const Scope& scope, const Options& options)
    : options_(options), head_begin_(scope.part(options.heads).begin) {
  throw_if_error(
      validate_head_sharding("additive", options.heads, scope.parameters().mesh().shape));
  score_ = scope.weight("score",
                        {options.heads, options.dim},
                        options.initial.value_or(Initializer::xavier(options.dim, 1)),
                        0);
  if (options.kernel_size > 0)
    location_ = scope.weight(
        "location",
        {options.heads, options.kernel_size, options.dim},
        options.initial.value_or(Initializer::xavier(options.kernel_size, options.dim)),
        0);
}

Variable AdditiveAttentionOp::operator()(const ProjectedQKV& input,
                                         const AttentionContext& context,
                                         const ForwardContext& pass) const {
  const AdditiveRules rules = rules_of(context.mask);
  const ProjectedQKV all = gather_sequence(input);
  const std::int64_t begin = all.heads.begin - head_begin_, count = all.query.shape()[2];
  const Variable score = heads_of(score_, begin, count);
  const auto dropout = probability_dropout(options_.dropout, all, context.mask, pass);
  if (!location_)
    return local_shard(additive_attention(all.query, all.key, all.value, score, rules, dropout),
                       input);
  const ChunkBoundaries ends = input.state ? input.state->boundaries() : ChunkBoundaries();
  Tensor before = ends.initial();
  if (before.defined()) before = of_keys(before, all.key.shape()[1]);
  const LocationAwareAttention found = location_aware_attention(all.query,
                                                                all.key,
                                                                all.value,
                                                                score,
                                                                heads_of(location_, begin, count),
                                                                rules,
                                                                before,
                                                                dropout);
  if (ends.needs_final()) ends.after->value = found.last;
  return local_shard(found.out, input);
}

AttentionKind additive_kind() {
  return {.name = "additive",
          .sees = "as full, by additive scores",
          .alone = "its scores are not dot products",
          .supports_kv_cache = true,
          .own_weights = true,
          .problem = validate_additive,
          .make = [](const Scope& attention,
                     const AttentionOptions& options,
                     const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
            throw_if_error(validate_additive(options, setting));
            return std::make_unique<AdditiveAttentionOp>(
                attention,
                AdditiveAttentionOp::Options{
                    .heads = setting.heads, .dim = setting.dim, .dropout = setting.dropout});
          }};
}

std::unique_ptr<AttentionOp> cross_attention_op(const Scope& attention,
                                                const CrossAttentionScoreOptions& scores,
                                                const AdditiveAttentionOp::Options& options,
                                                double scale) {
  const SoftmaxOptions form = {.scale = scale};
  if (scores.kind == CrossAttentionScore::dot_product)
    return std::make_unique<SoftmaxAttention>(
        options.dropout, AttentionPattern(), RelativeTerms(), form);
  AdditiveAttentionOp::Options made = options;
  made.kernel_size = scores.kind == CrossAttentionScore::location ? scores.kernel_size : 0;
  return std::make_unique<AdditiveAttentionOp>(attention, made);
}

std::string validate_cross_scores(const CrossAttentionScoreOptions& scores,
                                  std::int64_t heads,
                                  std::int64_t dim,
                                  const MeshShape& mesh) {
  if (scores.kind == CrossAttentionScore::dot_product) return "";
  const bool located = scores.kind == CrossAttentionScore::location;
  if (located && scores.kernel_size % 2 == 0)
    return fmt::format(
        "model.cross_attention.location_kernel_size: expected an odd number, found {}",
        scores.kernel_size);
  if (const std::string problem = validate_width(dim); !problem.empty()) return problem;
  return validate_head_sharding(located ? "location" : "additive", heads, mesh);
}

}  // namespace longspan
