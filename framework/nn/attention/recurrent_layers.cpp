#include "framework/nn/attention/recurrent_layers.h"

#include <array>
#include <cmath>
#include <utility>

#include "framework/autograd/collectives.h"
#include "framework/autograd/convolution.h"
#include "framework/autograd/gated_recurrence.h"
#include "framework/autograd/norms.h"
#include "framework/autograd/recompute.h"
#include "framework/autograd/ring_attention.h"
#include "framework/autograd/sequence_products.h"
#include "framework/core/dispatch.h"
#include "framework/kernels/elementwise.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/linear_attention.h"

namespace longspan {
namespace {

// As in the authors' code.
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

bool is_delta_type(RecurrenceKind kind) { return kind >= RecurrenceKind::delta_net; }

// Value heads stay on the tensor rank of their key head.
std::string validate_projections(const ProjectionShape& shape, const MeshShape& mesh) {
  if (shape.value_heads % shape.key_heads != 0)
    return fmt::format(
        "model.attention.delta_rule.num_key_heads: expected a divisor of the {} value heads, found "
        "{}",
        shape.value_heads,
        shape.key_heads);
  if (shape.key_heads % mesh.tensor == 0) return "";
  return fmt::format(
      "model.attention.delta_rule.num_key_heads: expected a multiple of "
      "parallel.tensor_parallel_size = {}, found {}",
      mesh.tensor,
      shape.key_heads);
}

std::string problem_of_kind(RecurrenceKind kind,
                            const AttentionOptions& options,
                            const AttentionBuildOptions& setting) {
  const char* const name = name_of(kind);
  if (!setting.causal)
    return fmt::format(
        "model.attention.layer_types: {} requires a causal model; use it in a decoder", name);
  const auto projections =
      is_delta_type(kind) ? delta_rule_projections(options.delta_rule, setting) : std::nullopt;
  const std::string problem =
      projections ? validate_projections(*projections, setting.mesh) : std::string();
  return problem.empty() ? validate_memory(name, setting) : problem;
}

}  // namespace

bool passes_states(const ProcessMesh& mesh, std::int64_t heads) {
  return heads % (std::int64_t{mesh.shape.tensor} * mesh.shape.context) != 0;
}

SharedRecurrence shared_recurrence(const ProjectedQKV& input, bool passes) {
  SharedRecurrence result = {.exchanged = input, .passed = {}};
  if (passes) result.passed = std::exchange(result.exchanged.shares, std::nullopt);
  return result;
}

RecurrentStateSpec state_of_heads(const Parameters& parameters,
                                  std::int64_t heads,
                                  std::int64_t key_dim,
                                  std::int64_t value_dim,
                                  StateSplit split) {
  return recurrent_state_spec(parameters.mesh(),
                              "state",
                              {1, heads, key_dim, value_dim},
                              accumulator_of(parameters.compute_dtype()),
                              split);
}

RecurrentStateSpec state_of_convolution(const Parameters& parameters,
                                        const std::string& name,
                                        std::int64_t taps,
                                        std::int64_t channels,
                                        StateSplit split) {
  return recurrent_state_spec(
      parameters.mesh(), name, {1, taps - 1, 1, channels}, parameters.compute_dtype(), split, 3);
}

void require_causal(const AttentionMask& mask, const std::string& kind) {
  if (!is_causal(mask, kind, "its state covers one segment"))
    throw ConfigurationError("attention type {} requires a causal model", kind);
}

AttentionKind recurrent_kind(std::string name, std::string sees) {
  return {.name = std::move(name),
          .sees = std::move(sees),
          .alone = "its keys are summarized in a state",
          .supports_kv_cache = true,
          .supports_documents = true,
          .turns = true,
          .own_weights = true,
          .has_probabilities = false};
}

Initializer initial_step_bias() {
  return Initializer::between(std::log(least_step), std::log(most_step));
}

Initializer initial_log_rate() { return Initializer::between(0, std::log(most_rate)); }

Variable heads_of_vector(const Variable& x, const ShardRange& heads, const ShardRange& own) {
  if (heads.count == own.count) return x;
  const std::int64_t dim = x.shape().elements() / own.count;
  const Variable some =
      slice_sequence(reshape(x, {1, own.count, dim}), heads.begin - own.begin, heads.count);
  const Shape& shape = x.shape();
  return reshape(some, shape.with(0, shape[0] / own.count * heads.count));
}

void declare(OptionTable& table, DeltaRuleOptions& options) {
  const auto add = [&](const char* key, auto& option, const char* text) {
    table.add(key,
              option,
              text,
              between(1, 1 << 16),
              affects_weights(),
              only_with(layer_type({"delta_net", "gated_delta_net", "kimi_delta_attention"})));
  };
  add("model.attention.delta_rule.num_key_heads",
      options.key_heads,
      "number of query and key heads, each shared by a group of consecutive value heads; none: "
      "one for each value head");
  add("model.attention.delta_rule.num_value_heads",
      options.value_heads,
      "number of value heads, each with a state; none: model.num_attention_heads");
  add("model.attention.delta_rule.key_head_dim",
      options.key_dim,
      "dimension of a query or key head; none: that of an attention head");
  add("model.attention.delta_rule.value_head_dim",
      options.value_dim,
      "dimension of a value head; none: that of an attention head");
  table.add("model.attention.delta_rule.norm_eps",
            options.norm_epsilon,
            "epsilon of the RMS norm of each head's output",
            more_than(0.0),
            affects_weights(),
            only_with(layer_type({"delta_net", "gated_delta_net", "kimi_delta_attention"})));
}

std::optional<ProjectionShape> delta_rule_projections(const DeltaRuleOptions& options,
                                                      const AttentionBuildOptions& setting) {
  if (!options.key_heads && !options.value_heads && !options.key_dim && !options.value_dim)
    return std::nullopt;
  const std::int64_t heads = options.value_heads.value_or(setting.heads);
  return ProjectionShape{.key_heads = options.key_heads.value_or(heads),
                         .value_heads = heads,
                         .key_dim = options.key_dim.value_or(setting.dim),
                         .value_dim = options.value_dim.value_or(setting.dim)};
}

GatedRecurrenceOp::GatedRecurrenceOp(const Scope& scope, const Options& options)
    : options_(options), passes_states_(passes_states(scope.parameters().mesh(), key_heads())) {
  using enum RecurrenceKind;
  const std::int64_t heads = options.heads, width = options.width;
  const std::int64_t key_dim = options.key_dim, value_dim = options.value_dim;
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return Linear(scope.child(name),
                  {.in = in, .out = out, .split = ParallelMode::columns, .bias = bias});
  };
  const auto decay = [&](std::int64_t in, std::int64_t out) {
    return Linear(scope.child("decay"),
                  {.in = in,
                   .out = out,
                   .split = ParallelMode::columns,
                   .initial = Initializer::normal(decay_deviation),
                   .initial_bias = initial_step_bias()});
  };
  const auto low_rank = [&](const char* name, std::int64_t rank) {
    return scope.child(name).replicated_weight(
        "down", {rank, width}, Initializer::xavier(width, rank));
  };
  if (is_delta())
    for (const auto& [name, channels] : {std::pair("query_convolution", key_heads() * key_dim),
                                         std::pair("key_convolution", key_heads() * key_dim),
                                         std::pair("value_convolution", heads * value_dim)})
      convolutions_.push_back(scope.no_decay_weight(
          name,
          {channels, options.taps},
          Initializer::uniform(1 / std::sqrt(static_cast<double>(options.taps))),
          0));
  if (is_delta()) beta_ = linear("beta", width, heads, false);
  if (options.kind == gla) {
    decay_down_ = low_rank("decay", gla_rank);
    decay_ = linear("decay", gla_rank, heads * key_dim, true);
  }
  if (options.kind == gated_delta_net) decay_ = decay(width, heads);
  if (options.kind == kimi_delta_attention) {
    decay_down_ = low_rank("decay", key_dim);
    decay_ = decay(key_dim, heads * key_dim);
  }
  if (options.kind == gated_delta_net || options.kind == kimi_delta_attention)
    log_rate_ = scope.no_decay_weight("log_rate", {heads}, initial_log_rate(), 0);
  if (options.kind != retention)
    head_gain_ =
        scope.child("head_norm").replicated_weight("weight", {value_dim}, Initializer::constant(1));
  if (options.kind == kimi_delta_attention) {
    gate_down_ = low_rank("output_gate", value_dim);
    output_gate_ = linear("output_gate", value_dim, heads * value_dim, true);
  } else if (options.kind != delta_net) {
    output_gate_ = linear("output_gate", width, heads * value_dim, false);
  }
}

std::vector<RecurrentStateSpec> GatedRecurrenceOp::recurrent_states(
    const Parameters& parameters) const {
  const auto [heads, key_dim, value_dim] =
      std::tuple(options_.heads, options_.key_dim, options_.value_dim);
  const StateSplit split = split_of_states(passes_states_);
  std::vector<RecurrentStateSpec> states = {
      state_of_heads(parameters, heads, key_dim, value_dim, split)};
  if (!is_delta() || options_.taps == 1) return states;
  const std::int64_t keys = key_dim * key_heads();
  for (const auto& [name, channels] : {std::pair("query_convolution", keys),
                                       std::pair("key_convolution", keys),
                                       std::pair("value_convolution", heads * value_dim)})
    states.push_back(state_of_convolution(parameters, name, options_.taps, channels, split));
  return states;
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

DeltaRuleConvolution GatedRecurrenceOp::convolution(std::size_t index,
                                                    const ProjectedQKV& all,
                                                    const ProjectedQKV& input) const {
  // After an exchange, each context rank has an equal part of the heads.
  const auto heads = [index](const ProjectedQKV& x) {
    return (index == 2 ? x.value : (index == 1 ? x.key : x.query)).shape()[2];
  };
  const std::int64_t some = heads(all), own = heads(input);
  const std::int64_t begin = input.shares ? input.shares->ranks.rank() * some : 0;
  const DType sums = accumulator_of(input.query.value().dtype());
  return {.weight = heads_of_vector(cast(convolutions_[index]->variable, sums),
                                    {.begin = begin, .count = some, .total = own},
                                    {.begin = 0, .count = own, .total = own}),
          .state = chunk_state(input, 1 + index)};
}

Variable GatedRecurrenceOp::operator()(const ProjectedQKV& input,
                                       const AttentionContext& context,
                                       const ForwardContext& pass) const {
  require_causal(context.mask, name_of(options_.kind));
  const SharedRecurrence shared = shared_recurrence(input, passes_states_);
  const ProjectedQKV& own = shared.exchanged;
  const Tensor documents = gather_document_positions(context.mask, own.shares);
  // All positions of some heads, or the other way round.
  const ProjectedQKV all = gather_sequence(own);
  const DType sums = accumulator_of(input.query.value().dtype());
  RecurrenceGates gates = {.log_decay = gather_heads(log_decay(input, pass), own.shares)};
  if (beta_) {
    const Variable logits = (*beta_)(input.input, pass.of_all_rows());
    const Variable zero(
        Tensor::zeros({input.heads.count}, sums, logits.value().device(), MemoryTag::workspace));
    // The sigmoid of the logits, in the accumulator dtype.
    gates.beta = gather_heads(token_spans(logits, zero, 1), own.shares);
  }
  const ChunkBoundaries state = chunk_state(input, 0);
  if (is_delta())
    return finish(local_shard(delta_rule({.query = all.query,
                                          .key = all.key,
                                          .value = all.value,
                                          .gates = gates,
                                          .convolutions = {convolution(0, all, own),
                                                           convolution(1, all, own),
                                                           convolution(2, all, own)},
                                          .document_position = documents,
                                          .state = state,
                                          .shares = shared.passed}),
                              own),
                  input.input,
                  pass);
  const double scale = 1 / std::sqrt(static_cast<double>(options_.key_dim));
  const Variable y = gated_recurrence(
      all.query,
      all.key,
      all.value,
      gates,
      {.scale = scale, .document_position = documents, .state = state, .shares = shared.passed});
  return finish(local_shard(y, own), input.input, pass);
}

Variable GatedRecurrenceOp::finish(const Variable& y,
                                   const Variable& x,
                                   const ForwardContext& pass) const {
  if (!output_gate_) return rms_norm(y, head_gain_->variable, options_.norm_epsilon);
  const Variable from = gate_down_ ? longspan::linear(x, gate_down_->variable, Variable()) : x;
  const Variable logits = in_heads((*output_gate_)(from, pass.of_all_rows()), y.shape()[2]);
  if (options_.kind != RecurrenceKind::kimi_delta_attention && head_gain_)
    return gated_head_norm(y, head_gain_->variable, options_.norm_epsilon, logits);
  const auto finished = [kind = options_.kind,
                         epsilon = options_.norm_epsilon](const std::vector<Variable>& in) {
    return kind == RecurrenceKind::kimi_delta_attention
               ? gate(GateFunction::reset, rms_norm(in[0], in[2], epsilon), {}, in[1], {})
               : gated(Activation::silu, in[1], rms_normalize(in[0], epsilon));
  };
  return recompute(finished, {y, logits, head_gain_ ? head_gain_->variable : Variable()});
}

namespace {

template <RecurrenceKind kind>
std::string problem_of(const AttentionOptions& options, const AttentionBuildOptions& setting) {
  return problem_of_kind(kind, options, setting);
}

template <RecurrenceKind kind>
std::unique_ptr<AttentionOp> make(const Scope& attention,
                                  const AttentionOptions& options,
                                  const AttentionBuildOptions& setting) {
  const auto own =
      is_delta_type(kind) ? delta_rule_projections(options.delta_rule, setting) : std::nullopt;
  return std::make_unique<GatedRecurrenceOp>(
      attention,
      GatedRecurrenceOp::Options{.kind = kind,
                                 .heads = own ? own->value_heads : setting.heads,
                                 .key_dim = own ? own->key_dim : setting.dim,
                                 .value_dim = own ? own->value_dim : setting.dim,
                                 .width = setting.width,
                                 .taps = options.convolution_taps,
                                 .norm_epsilon = options.delta_rule.norm_epsilon,
                                 .projections = own});
}

template <RecurrenceKind kind>
AttentionKind gated_recurrence_kind(const char* sees) {
  AttentionKind result = recurrent_kind(name_of(kind), sees);
  result.problem = problem_of<kind>;
  result.make = make<kind>;
  return result;
}

}  // namespace

std::vector<AttentionKind> recurrent_kinds() {
  using enum RecurrenceKind;
  return {gated_recurrence_kind<retention>("as full, by a state with a fixed decay of each head"),
          gated_recurrence_kind<gla>("as full, by a state with a decay of each channel and token"),
          gated_recurrence_kind<delta_net>("as full, by a state that the delta rule corrects"),
          gated_recurrence_kind<gated_delta_net>("as delta_net, with a decay of each token"),
          gated_recurrence_kind<kimi_delta_attention>(
              "as delta_net, with a decay of each channel and token")};
}

}  // namespace longspan
