#include "framework/nn/attention/attention_free_layers.h"

#include <algorithm>

#include "framework/autograd/attention_free.h"
#include "framework/autograd/sequence_products.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/attention/attention_free.h"
#include "framework/kernels/attention/key_weights.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/token_mixer.h"

namespace longspan {
namespace {

constexpr const char* aft_full = "aft_full";
constexpr const char* aft_local = "aft_local";
constexpr const char* aft_simple = "aft_simple";

// -infinity at padding, [batch, keys] in the accumulator dtype; undefined without padding.
Tensor padded_keys(const Tensor& key, const AttentionMask& mask) {
  if (!mask.key_padding.defined() && !mask.key_length.defined()) return {};
  const Shape& shape = key.shape();
  const Tensor log_weight =
      Tensor::zeros({shape[0], shape[1], 1}, accumulator_of(key.dtype()), key.device());
  on(key.device(), [&](auto backend) {
    mask_keys(backend,
              {.padding = mask.key_padding,
               .length = mask.key_length,
               .positions = {{0, shape[1]}},
               .log_weight = log_weight});
  });
  return log_weight.reshape({shape[0], shape[1]});
}

Variable channels_of(const Variable& x) {
  const Shape& shape = x.shape();
  return reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
}

}  // namespace

AttentionFreeOp::AttentionFreeOp(const Scope& scope, const Options& options) : options_(options) {
  constexpr double deviation = 0.01;
  if (options.longest == 0) return;
  const std::int64_t columns =
      options.banded ? AttentionFree::band(options.window, options.causal) : options.longest;
  bias_ = scope.replicated_weight(
      "position_bias", {options.longest, columns}, Initializer::normal(deviation));
}

Variable AttentionFreeOp::operator()(const ProjectedQKV& input,
                                     const AttentionContext& context,
                                     const ForwardContext&) const {
  AttentionMask mask = context.mask;
  mask.query_begin = 0;  // of queries after cached keys
  if (is_causal(mask, options_.kind, "its biases have absolute positions") != options_.causal)
    throw ConfigurationError("attention type {} supports only the mask of its model",
                             options_.kind);
  const ProjectedQKV all = gather_sequence(input);
  AttentionFreeOptions options = {.causal = options_.causal,
                                  .window = options_.window,
                                  .banded = options_.banded,
                                  .max_lookback = gather_document_positions(mask, input.shares)};
  Variable key = channels_of(all.key), value = channels_of(all.value), bias;
  if (bias_) {
    options.query_begin = context.mask.query_begin;
    const std::int64_t positions = options.query_begin + all.query.shape()[1];
    check_mixing_length(options_.kind, options_.longest, positions);
    // A cache has unused capacity.
    key = slice_sequence(key, 0, positions);
    value = slice_sequence(value, 0, positions);
    bias = cast(bias_->variable, accumulator_of(key.value().dtype()));
  } else {
    options.state = chunk_state(input, 0);
  }
  options.hidden = padded_keys(key.value(), mask);
  const Variable mean = reshape(attention_free(key, value, bias, options), all.query.shape());
  return local_shard(gate(GateFunction::reset, mean, {}, all.query, {}), input);
}

namespace {

template <const char* const& kind>
std::string problem_of_aft(const AttentionOptions& options, const AttentionBuildOptions& setting) {
  const bool has_length = std::string_view(kind) != aft_simple;
  const std::string problem = validate_mixing(kind, options, setting, has_length);
  if (!problem.empty() || setting.mesh.context == 1) return problem;
  return validate_head_sharding(kind, setting.heads, setting.mesh);
}

template <const char* const& kind>
std::unique_ptr<AttentionOp> make_aft(const Scope& attention,
                                      const AttentionOptions& options,
                                      const AttentionBuildOptions& setting) {
  throw_if_error(problem_of_aft<kind>(options, setting));
  AttentionFreeOp::Options own = {.kind = kind, .causal = setting.causal};
  if (own.kind != aft_simple) {
    own.longest = mixing_length(kind, options, setting);
    own.banded = own.kind == aft_local && options.mixing.window < own.longest;
    own.window = own.banded ? options.mixing.window : own.longest;
  }
  return std::make_unique<AttentionFreeOp>(attention, own);
}

template <const char* const& kind>
AttentionKind attention_free_kind(const char* sees) {
  AttentionKind result = {.name = kind,
                          .sees = sees,
                          .alone = "its keys have no queries",
                          .supports_kv_cache = true,
                          .supports_documents = true,
                          .turns = true,
                          .own_weights = true,
                          .has_probabilities = false,
                          .problem = problem_of_aft<kind>,
                          .make = make_aft<kind>};
  if (std::string_view(kind) != aft_simple) result.longest = longest_mixing;
  return result;
}

}  // namespace

std::vector<AttentionKind> attention_free_kinds() {
  return {attention_free_kind<aft_full>("as full, by a softmax over keys in each channel, with a "
                                        "bias of each pair of positions"),
          attention_free_kind<aft_local>("as aft_full, with biases of near keys only"),
          attention_free_kind<aft_simple>("as aft_full, without biases")};
}

}  // namespace longspan
