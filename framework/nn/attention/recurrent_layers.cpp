#include "framework/nn/attention/recurrent_layers.h"

#include <array>
#include <cmath>

#include "framework/autograd/collectives.h"
#include "framework/autograd/convolution.h"
#include "framework/autograd/gated_recurrence.h"
#include "framework/autograd/norms.h"
#include "framework/autograd/ring_attention.h"
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

// For an input of 0, gates start as e^(-rate step), with rates in [1, 16] and steps in [0.001,
// 0.1], both log-uniform (of the published models, some draw uniform rates): a head forgets half of
// its state in 0.4 to 700 tokens. The bias of a step is its logarithm, as softplus(x) is close to
// e^x.
constexpr double least_step = 1e-3, most_step = 0.1, most_rate = 16;
constexpr double decay_deviation = 0.02;  // of the weights, so that the input changes gates little

const char* name_of(RecurrenceKind kind) {
  constexpr std::array<const char*, 5> names = {
      "retention", "gla", "delta_net", "gated_delta_net", "kimi_delta_attention"};
  return names[static_cast<std::size_t>(kind)];
}

// [batch, time, heads * n] as [batch, time, heads, n].
Variable in_heads(const Variable& x, std::int64_t heads) {
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

std::string problem_of_kind(RecurrenceKind kind, const AttentionBuildOptions& setting) {
  const char* const name = name_of(kind);
  if (!setting.causal)
    return fmt::format(
        "model.attention.layer_types: {} requires a causal model; use it in a decoder", name);
  if (setting.mesh.context > 1) {
    const std::string problem = validate_head_sharding(name, setting.heads, setting.mesh);
    if (!problem.empty()) return problem;
  }
  return validate_memory(name, setting);
}

}  // namespace

Variable heads_of_vector(const Variable& x, const ShardRange& heads, const ShardRange& own) {
  if (heads.count == own.count) return x;
  const std::int64_t dim = x.shape().elements() / own.count;
  const Variable some =
      slice_sequence(reshape(x, {1, own.count, dim}), heads.begin - own.begin, heads.count);
  const Shape& shape = x.shape();
  return reshape(some, shape.with(0, shape[0] / own.count * heads.count));
}

Variable convolve_heads(const Variable& x,
                        const Variable& weight,
                        const Variable& bias,
                        const Tensor& document_position,
                        const ChunkBoundaries& state) {
  const std::int64_t heads = x.shape()[2];
  return in_heads(short_convolution(flat(x), weight, bias, document_position, true, state), heads);
}

GatedRecurrenceOp::GatedRecurrenceOp(const Scope& scope, const Options& options)
    : options_(options) {
  using enum RecurrenceKind;
  const std::int64_t heads = options.heads, dim = options.dim, width = options.width;
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return Linear(scope.child(name),
                  {.in = in, .out = out, .split = ParallelMode::columns, .bias = bias});
  };
  const auto decay = [&](std::int64_t in, std::int64_t out) {
    return Linear(
        scope.child("decay"),
        {.in = in,
         .out = out,
         .split = ParallelMode::columns,
         .initial = Initializer::normal(decay_deviation),
         .initial_bias = Initializer::between(std::log(least_step), std::log(most_step))});
  };
  const auto low_rank = [&](const char* name, std::int64_t rank) {
    return scope.child(name).replicated_weight(
        "down", {rank, width}, Initializer::xavier(width, rank));
  };
  if (is_delta())
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
  if (options.kind == gated_delta_net) decay_ = decay(width, heads);
  if (options.kind == kimi_delta_attention) {
    decay_down_ = low_rank("decay", dim);
    decay_ = decay(dim, heads * dim);
  }
  if (options.kind == gated_delta_net || options.kind == kimi_delta_attention)
    log_rate_ =
        scope.no_decay_weight("log_rate", {heads}, Initializer::between(0, std::log(most_rate)), 0);
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
  return has_channel_gates() ? in_heads(gates, input.heads.count) : gates;
}

Variable GatedRecurrenceOp::operator()(const ProjectedQKV& input,
                                       const AttentionContext& context,
                                       const ForwardContext& pass) const {
  const char* const name = name_of(options_.kind);
  if (!is_causal(context.mask, name, "its state covers one segment"))
    throw ConfigurationError("attention type {} requires a causal model", name);
  const Tensor documents = gather_document_positions(context.mask, input.shares);
  // All positions, with some of the heads.
  const ProjectedQKV all = gather_sequence(input);
  const DType sums = accumulator_of(input.query.value().dtype());
  RecurrenceGates gates = {.log_decay = gather_heads(log_decay(input, pass), input.shares)};
  if (beta_) {
    const Variable logits = (*beta_)(input.input, pass.of_all_rows());
    const Variable zero(
        Tensor::zeros({input.heads.count}, sums, logits.value().device(), MemoryTag::workspace));
    // The sigmoid of the logits, in the accumulator dtype.
    gates.beta = gather_heads(token_spans(logits, zero, 1), input.shares);
  }
  Variable query = all.query, key = all.key, value = all.value;
  if (is_delta()) {
    const auto convolved = [&](const Variable& x, std::size_t index) {
      const Variable weight = cast(convolutions_[index]->variable, sums);
      return convolve_heads(x,
                            heads_of_vector(weight, all.heads, input.heads),
                            {},
                            documents,
                            chunk_state(input, 1 + index));
    };
    query = convolved(query, 0);
    key = convolved(key, 1);
    value = convolved(value, 2);
  }
  if (is_delta()) {
    query = l2_normalize(query, length_epsilon);
    key = l2_normalize(key, length_epsilon);
  }
  const GatedRecurrenceOptions options = {.scale = 1 / std::sqrt(static_cast<double>(options_.dim)),
                                          .document_position = documents,
                                          .state = chunk_state(input, 0)};
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
  const Variable logits = in_heads((*output_gate_)(from, pass.of_all_rows()), y.shape()[2]);
  if (options_.kind == RecurrenceKind::kimi_delta_attention)
    return gate(GateFunction::reset, normed, {}, logits, {});
  return gated(Activation::silu, logits, normed);
}

namespace {

template <RecurrenceKind kind>
std::string problem_of(const AttentionOptions&, const AttentionBuildOptions& setting) {
  return problem_of_kind(kind, setting);
}

template <RecurrenceKind kind>
std::unique_ptr<AttentionOp> make(const Scope& attention,
                                  const AttentionOptions& options,
                                  const AttentionBuildOptions& setting) {
  return std::make_unique<GatedRecurrenceOp>(
      attention,
      GatedRecurrenceOp::Options{.kind = kind,
                                 .heads = setting.heads,
                                 .dim = setting.dim,
                                 .width = setting.width,
                                 .taps = options.convolution_taps});
}

template <RecurrenceKind kind>
AttentionKind recurrent_kind(const char* sees) {
  return {.name = name_of(kind),
          .sees = sees,
          .alone = "its keys are summarized in a state",
          .supports_kv_cache = true,
          .supports_documents = true,
          .turns = true,
          .own_weights = true,
          .has_probabilities = false,
          .problem = problem_of<kind>,
          .make = make<kind>};
}

}  // namespace

std::vector<AttentionKind> recurrent_kinds() {
  using enum RecurrenceKind;
  return {
      recurrent_kind<retention>("as full, by a state with a fixed decay of each head"),
      recurrent_kind<gla>("as full, by a state with a decay of each channel and token"),
      recurrent_kind<delta_net>("as full, by a state that the delta rule corrects"),
      recurrent_kind<gated_delta_net>("as delta_net, with a decay of each token"),
      recurrent_kind<kimi_delta_attention>("as delta_net, with a decay of each channel and token")};
}

}  // namespace longspan
