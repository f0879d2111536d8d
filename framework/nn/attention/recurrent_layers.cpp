#include "framework/nn/attention/recurrent_layers.h"

#include <array>
#include <cmath>

#include "framework/autograd/gated_recurrence.h"
#include "framework/autograd/norms.h"
#include "framework/autograd/sequence_products.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/linear_attention.h"

namespace longspan {
namespace {

// As in the authors' code.
constexpr double norm_epsilon = 1e-6;
constexpr double length_epsilon = 1e-6;      // of the L2 norm of queries and keys
constexpr std::int64_t gla_rank = 16;        // of the gates
constexpr double gla_normalizer = 1.0 / 16;  // of their logarithms

const char* name_of(RecurrenceKind kind) {
  constexpr std::array<const char*, 5> names = {
      "retention", "gla", "delta_net", "gated_delta_net", "kimi_delta_attention"};
  return names[static_cast<std::size_t>(kind)];
}

// [batch, time, heads * n] as [batch, time, heads, n].
Variable by_head(const Variable& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  return reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
}
Variable flat(const Variable& x) {
  const Shape& shape = x.shape();
  return reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
}

Tensor filled(double value, std::int64_t count, DType dtype, const Device& device) {
  const std::vector<double> values(static_cast<std::size_t>(count), value);
  return cast(Variable(Tensor::from<double>(values, {count}, device)), dtype).value();
}

// The gates of retention for all tokens, [batch, time, heads].
Variable constant_gates(const Variable& query, const ShardRange& heads) {
  const Tensor& x = query.value();
  const Shape& shape = x.shape();
  std::vector<double> of_heads;
  for (std::int64_t h = heads.begin; h < heads.begin + heads.count; ++h)
    of_heads.push_back(std::log1p(-std::exp2(-5.0 - static_cast<double>(h))));
  const Tensor row = cast(Variable(Tensor::from<double>(of_heads, {heads.count}, x.device())),
                          accumulator_of(x.dtype()))
                         .value();
  const Tensor all = Tensor::zeros(
      {shape[0], shape[1], shape[2]}, row.dtype(), x.device(), MemoryTag::activations);
  const Tensor tokens = all.reshape({shape[0] * shape[1], 1, heads.count});
  on(x.device(), [&](auto backend) {
    scale_and_add_rows(backend, 1, tokens, row.reshape({1, heads.count}), tokens);
  });
  return Variable(all);
}

std::string problem_of_recurrence(RecurrenceKind kind, const AttentionBuildOptions& setting) {
  const char* const name = name_of(kind);
  if (!setting.causal)
    return fmt::format(
        "model.attention.layer_types: {} requires a causal model; use it in a decoder", name);
  if (setting.documents && setting.mesh.context > 1)
    return fmt::format(
        "model.attention.layer_types: {} does not support data.documents.reset_attention_mask with "
        "parallel.context_parallel_size > 1",
        name);
  if (setting.mesh.context > 1) {
    const std::string problem = validate_head_sharding(name, setting.heads, setting.mesh);
    if (!problem.empty()) return problem;
  }
  return validate_memory(name, setting);
}

}  // namespace

GatedRecurrenceOp::GatedRecurrenceOp(const Scope& scope, const Options& options)
    : options_(options) {
  using enum RecurrenceKind;
  const std::int64_t heads = options.heads, dim = options.dim, width = options.width;
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return Linear(scope.child(name),
                  {.in = in, .out = out, .split = ParallelMode::columns, .bias = bias});
  };
  const auto low_rank = [&](const char* name, std::int64_t rank) {
    return scope.child(name).replicated_weight(
        "down", {rank, width}, Initializer::xavier(width, rank));
  };
  if (has_convolutions())
    for (const char* const name : {"query_convolution", "key_convolution", "value_convolution"})
      convolutions_.push_back(scope.no_decay_weight(
          name,
          {heads * dim, options.taps},
          Initializer::uniform(1 / std::sqrt(static_cast<double>(options.taps))),
          0));
  if (is_delta()) beta_ = linear("beta", width, heads, false);
  if (options.kind == gla) {
    decay_down_ = low_rank("decay", gla_rank);
    decay_ = linear("decay", gla_rank, heads * dim, true);
  }
  if (options.kind == gated_delta_net) decay_ = linear("decay", width, heads, true);
  if (options.kind == kimi_delta_attention) {
    decay_down_ = low_rank("decay", dim);
    decay_ = linear("decay", dim, heads * dim, true);
  }
  if (options.kind == gated_delta_net || options.kind == kimi_delta_attention)
    log_rate_ = scope.no_decay_weight("log_rate", {heads}, Initializer::normal(1, 1), 0);
  if (options.kind != retention)
    norm_.emplace(scope.child("head_norm"), dim, NormOptions(NormKind::rms, {}, norm_epsilon));
  if (options.kind == kimi_delta_attention) {
    gate_down_ = low_rank("output_gate", dim);
    output_gate_ = linear("output_gate", dim, heads * dim, true);
  } else if (options.kind != delta_net) {
    output_gate_ = linear("output_gate", width, heads * dim, false);
  }
}

Variable GatedRecurrenceOp::log_decay(const ProjectedQKV& input, const ForwardContext& pass) const {
  if (options_.kind == RecurrenceKind::retention) return constant_gates(input.query, input.heads);
  if (!decay_) return {};
  const Variable x =
      decay_down_ ? longspan::linear(input.input, decay_down_->variable, Variable()) : input.input;
  const Variable logits = (*decay_)(x, pass.of_all_rows());
  const Variable gates =
      options_.kind == RecurrenceKind::gla
          ? multiply_scalar(gated_weights(logits).decay, gla_normalizer)
          : decay_gates(logits, cast(log_rate_->variable, accumulator_of(logits.value().dtype())));
  return has_channel_gates() ? by_head(gates, input.heads.count) : gates;
}

Variable GatedRecurrenceOp::convolved(const Variable& x,
                                      std::size_t index,
                                      const ShardRange& heads,
                                      const ProjectedQKV& input,
                                      const Tensor& document_position) const {
  const std::int64_t dim = options_.dim, taps = options_.taps;
  const DType sums = accumulator_of(x.value().dtype());
  Variable weight = cast(convolutions_[index]->variable, sums);
  // Context ranks each have some of the heads.
  if (heads.count != input.heads.count)
    weight = slice_sequence(reshape(weight, {1, input.heads.count, dim, taps}),
                            heads.begin - input.heads.begin,
                            heads.count);
  ChunkBoundaries state;
  if (input.state != nullptr) state = input.state->boundaries(1 + index);
  return by_head(short_convolution(flat(x),
                                   reshape(weight, {heads.count * dim, taps}),
                                   Variable(),
                                   document_position,
                                   true,
                                   state),
                 heads.count);
}

Variable GatedRecurrenceOp::operator()(const ProjectedQKV& input,
                                       const AttentionContext& context,
                                       const ForwardContext& pass) const {
  const char* const name = name_of(options_.kind);
  if (!is_causal(context.mask, name, "its state covers one segment"))
    throw ConfigurationError("attention type {} requires a causal model", name);
  const Tensor& documents = context.mask.max_lookback;
  require(!documents.defined() || !input.shares,
          "a recurrence over context ranks does not support documents");
  // All positions, with some of the heads.
  const ProjectedQKV all = gather_sequence(input);
  const auto gathered = [&](const Variable& x) {
    if (!input.shares || !x.defined()) return x;
    const Shape& shape = x.shape();
    const bool by_channel = shape.dimensions() == 4;
    const Variable rows = by_channel ? x : reshape(x, {shape[0], shape[1], shape[2], 1});
    const Variable whole = sequence_to_heads(rows, input.shares->query_rows(), input.shares->ranks);
    const Shape& of_whole = whole.shape();
    return by_channel ? whole : reshape(whole, {of_whole[0], of_whole[1], of_whole[2]});
  };
  const DType sums = accumulator_of(input.query.value().dtype());
  RecurrenceGates gates = {.log_decay = gathered(log_decay(input, pass))};
  if (beta_) {
    const Variable logits = (*beta_)(input.input, pass.of_all_rows());
    const Variable zero(
        Tensor::zeros({input.heads.count}, sums, logits.value().device(), MemoryTag::workspace));
    gates.beta = gathered(token_spans(logits, zero, 1));
  }
  Variable query = all.query, key = all.key, value = all.value;
  if (has_convolutions()) {
    query = convolved(query, 0, all.heads, input, documents);
    key = convolved(key, 1, all.heads, input, documents);
    value = convolved(value, 2, all.heads, input, documents);
  }
  if (is_delta()) {
    query = l2_normalize(query, length_epsilon);
    key = l2_normalize(key, length_epsilon);
  }
  GatedRecurrenceOptions options = {.scale = 1 / std::sqrt(static_cast<double>(options_.dim)),
                                    .document_position = documents};
  if (input.state != nullptr) options.state = input.state->boundaries(0);
  const Variable y = gated_recurrence(query, key, value, gates, options);
  return finish(local_shard(y, input), input.input, pass);
}

Variable GatedRecurrenceOp::finish(const Variable& y,
                                   const Variable& x,
                                   const ForwardContext& pass) const {
  const DType dtype = y.value().dtype();
  const Variable normed =
      norm_
          ? (*norm_)(y)
          : rms_norm(y, Variable(filled(1, options_.dim, dtype, y.value().device())), norm_epsilon);
  if (!output_gate_) return normed;
  const Variable from = gate_down_ ? longspan::linear(x, gate_down_->variable, Variable()) : x;
  const Variable logits = by_head((*output_gate_)(from, pass.of_all_rows()), y.shape()[2]);
  if (options_.kind == RecurrenceKind::kimi_delta_attention)
    return gate(GateFunction::reset, normed, {}, logits, {});
  return gated(Activation::silu, logits, normed);
}

AttentionKind recurrent_kind(RecurrenceKind kind) {
  AttentionKind result = {.name = name_of(kind),
                          .sees = {},
                          .alone = "its keys are summarized in a state",
                          .supports_kv_cache = true,
                          .supports_documents = true,
                          .turns = true,
                          .own_weights = true,
                          .has_probabilities = false};
  const auto define = [&]<RecurrenceKind of>(std::integral_constant<RecurrenceKind, of>,
                                             const char* sees) {
    result.sees = sees;
    result.problem = [](const AttentionOptions&, const AttentionBuildOptions& setting) {
      return problem_of_recurrence(of, setting);
    };
    result.make = [](const Scope& attention,
                     const AttentionOptions& options,
                     const AttentionBuildOptions& setting) -> std::unique_ptr<AttentionOp> {
      return std::make_unique<GatedRecurrenceOp>(
          attention,
          GatedRecurrenceOp::Options{.kind = of,
                                     .heads = setting.heads,
                                     .dim = setting.dim,
                                     .width = setting.width,
                                     .taps = options.convolution_taps,
                                     .mesh = setting.mesh});
    };
  };
  using enum RecurrenceKind;
  switch (kind) {
    case retention:
      define(std::integral_constant<RecurrenceKind, retention>(),
             "as full, by a state with a fixed decay of each head");
      break;
    case gla:
      define(std::integral_constant<RecurrenceKind, gla>(),
             "as full, by a state with a decay of each channel and token");
      break;
    case delta_net:
      define(std::integral_constant<RecurrenceKind, delta_net>(),
             "as full, by a state that the delta rule corrects");
      break;
    case gated_delta_net:
      define(std::integral_constant<RecurrenceKind, gated_delta_net>(),
             "as delta_net, with a decay of each token");
      break;
    case kimi_delta_attention:
      define(std::integral_constant<RecurrenceKind, kimi_delta_attention>(),
             "as delta_net, with a decay of each channel and token");
      break;
  }
  return result;
}

}  // namespace longspan
