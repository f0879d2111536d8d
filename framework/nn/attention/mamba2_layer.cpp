#include "framework/nn/attention/mamba2_layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/autograd/norms.h"
#include "framework/autograd/recompute.h"
#include "framework/autograd/sequence_products.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/linear_attention.h"
#include "framework/nn/attention/recurrent_layers.h"
#include "framework/nn/position_convolution.h"

namespace longspan {
namespace {

// Returns the groups of these heads, [batch, time, groups, n]. x: all groups of this rank, [batch,
// time, groups * n], which `own` heads share. Either the heads of a group or those here divide the
// other.
Variable groups_of_heads(const Variable& x,
                         std::int64_t groups,
                         const ShardRange& heads,
                         const ShardRange& own) {
  const Shape& shape = x.shape();
  const std::int64_t n = shape[2] / groups, each = own.count / groups;
  const std::int64_t count = std::max<std::int64_t>(heads.count / each, 1);
  const Variable all = reshape(x, {shape[0] * shape[1], groups, n});
  const Variable some =
      count == groups ? all : slice_sequence(all, (heads.begin - own.begin) / each, count);
  return reshape(some, {shape[0], shape[1], count, n});
}

Variable group_norm(const Variable& x, const Variable& gain, std::int64_t groups, double epsilon) {
  if (groups == 1) return rms_norm(x, gain, epsilon);
  const Shape& shape = x.shape();
  const std::int64_t width = shape[2], each = width / groups;
  const double size = static_cast<double>(each);
  // The root mean square is the L2 norm over the square root of the size.
  const Variable normed =
      l2_normalize(reshape(x, {shape[0], shape[1], groups, each}), size * epsilon);
  const Variable factors = cast(gain, accumulator_of(x.value().dtype()));
  const Variable scaled = scale_heads(reshape(normed, {shape[0], shape[1], width, 1}),
                                      multiply_scalar(factors, std::sqrt(size)));
  return reshape(scaled, shape);
}

std::string problem_of_mamba2(const AttentionOptions& options,
                              const AttentionBuildOptions& setting) {
  const Mamba2Options& mamba2 = options.mamba2;
  if (!setting.causal)
    return "model.attention.layer_types: mamba2 requires a causal model; use it in a decoder";
  if (!mamba2.heads && 2 * setting.width % mamba2.dim != 0)
    return fmt::format(
        "model.attention.mamba2.head_dim: expected a divisor of twice model.hidden_size = {}, "
        "found {}; set model.attention.mamba2.num_heads",
        setting.width,
        mamba2.dim);
  const std::int64_t heads = mamba2.heads_of(setting.width);
  if (heads % mamba2.groups != 0)
    return fmt::format(
        "model.attention.mamba2.n_groups: expected a divisor of the {} heads, found {}",
        heads,
        mamba2.groups);
  if (mamba2.groups % setting.mesh.tensor != 0)
    return fmt::format(
        "model.attention.mamba2.n_groups: expected a multiple of parallel.tensor_parallel_size = "
        "{}, found {}",
        setting.mesh.tensor,
        mamba2.groups);
  const std::vector<double>& limit = mamba2.step_limit;
  if (!limit.empty() && (limit.size() != 2 || limit[0] > limit[1] || limit[1] == 0))
    return fmt::format(
        "model.attention.mamba2.time_step_limit: expected [least, most] with most above 0, found "
        "[{}]",
        fmt::join(limit, ", "));
  return validate_memory("mamba2", setting);
}

std::unique_ptr<AttentionOp> make_mamba2(const Scope& attention,
                                         const AttentionOptions& options,
                                         const AttentionBuildOptions& setting) {
  return std::make_unique<Mamba2Op>(attention,
                                    Mamba2Op::Options{.mamba2 = options.mamba2,
                                                      .width = setting.width,
                                                      .taps = options.convolution_taps,
                                                      .bias = setting.value_bias,
                                                      .epsilon = setting.norm_epsilon});
}

// Returns whether context ranks pass states on: also if one would have parts of several groups.
bool passes_states_of(const ProcessMesh& mesh, const Mamba2Op::Options& options) {
  const std::int64_t heads = options.mamba2.heads_of(options.width);
  if (passes_states(mesh, heads)) return true;
  const std::int64_t local = heads / (std::int64_t{mesh.shape.tensor} * mesh.shape.context);
  const std::int64_t each = heads / options.mamba2.groups;
  return local % each != 0 && each % local != 0;
}

Linear columns(const Scope& scope,
               const Mamba2Op::Options& options,
               std::int64_t out,
               std::optional<Initializer> initial_bias = {}) {
  return Linear(scope,
                {.in = options.width,
                 .out = out,
                 .split = ParallelMode::columns,
                 .bias = options.bias || initial_bias,
                 .initial_bias = initial_bias.value_or(Initializer::constant(0))});
}

}  // namespace

void declare(OptionTable& table, Mamba2Options& options) {
  const auto add = [&](const char* name, auto& value, const char* text, auto... rules) {
    table.add(std::string("model.attention.mamba2.") + name,
              value,
              text,
              rules...,
              only_with(layer_type({"mamba2"})));
  };
  const auto size = between(1, 1 << 20);
  add("num_heads",
      options.heads,
      "number of heads; none: 2 model.hidden_size / head_dim",
      size,
      affects_weights());
  add("head_dim", options.dim, "width of a head", size, affects_weights());
  add("state_size", options.state, "size of the state of each feature", size, affects_weights());
  add("n_groups",
      options.groups,
      "number of groups of heads; the heads of a group share B and C",
      size,
      affects_weights());
  add("time_step_limit",
      options.step_limit,
      "smallest and largest step size of a token; an empty list: no limits",
      at_least(0.0));
  add("conv_bias", options.convolution_bias, "biases of the short convolutions", affects_weights());
}

Variable gated_group_norm(const Variable& y,
                          const Variable& z,
                          const Variable& gain,
                          std::int64_t groups,
                          double epsilon) {
  const auto norm = [groups, epsilon](const std::vector<Variable>& in) {
    return group_norm(gated(Activation::silu, in[1], in[0]), in[2], groups, epsilon);
  };
  return recompute(norm, {y, z, gain});
}

Mamba2Op::Mamba2Op(const Scope& scope, const Options& options)
    : options_(options),
      passes_states_(passes_states_of(scope.parameters().mesh(), options)),
      key_(columns(scope.child("key"), options, options.mamba2.groups * options.mamba2.state)),
      query_(columns(scope.child("query"), options, options.mamba2.groups * options.mamba2.state)),
      step_(columns(scope.child("step"),
                    options,
                    options.mamba2.heads_of(options.width),
                    initial_step_bias())),
      gate_(columns(scope.child("output_gate"),
                    options,
                    options.mamba2.heads_of(options.width) * options.mamba2.dim)) {
  const Mamba2Options& mamba2 = options.mamba2;
  const std::int64_t heads = mamba2.heads_of(options.width), features = heads * mamba2.dim;
  value_convolution_ = convolution(scope.child("value_convolution"), features);
  key_convolution_ = convolution(scope.child("key_convolution"), mamba2.groups * mamba2.state);
  query_convolution_ = convolution(scope.child("query_convolution"), mamba2.groups * mamba2.state);
  log_rate_ = scope.no_decay_weight("log_rate", {heads}, initial_log_rate(), 0);
  skip_ = scope.no_decay_weight("skip", {heads}, Initializer::constant(1), 0);
  norm_ = scope.no_decay_weight("output_norm", {features}, Initializer::constant(1), 0);
}

Mamba2Op::Convolution Mamba2Op::convolution(const Scope& scope, std::int64_t features) const {
  const Initializer initial =
      Initializer::uniform(1 / std::sqrt(static_cast<double>(options_.taps)));
  Convolution result = {scope.no_decay_weight("weight", {features, options_.taps}, initial, 0), {}};
  if (options_.mamba2.convolution_bias)
    result.bias = scope.no_decay_weight("bias", {features}, initial, 0);
  return result;
}

std::vector<RecurrentStateSpec> Mamba2Op::recurrent_states(const Parameters& parameters) const {
  const Mamba2Options& mamba2 = options_.mamba2;
  const std::int64_t heads = mamba2.heads_of(options_.width);
  const StateSplit of_heads = split_of_states(passes_states_);
  std::vector<RecurrentStateSpec> states = {
      state_of_heads(parameters, heads, mamba2.state, mamba2.dim, of_heads)};
  if (options_.taps == 1) return states;
  const auto add = [&](const char* name, std::int64_t channels, StateSplit split) {
    states.push_back(state_of_convolution(parameters, name, options_.taps, channels, split));
  };
  add("value_convolution", heads * mamba2.dim, of_heads);
  // Every context rank has all groups.
  add("key_convolution", mamba2.groups * mamba2.state, StateSplit::tensor);
  add("query_convolution", mamba2.groups * mamba2.state, StateSplit::tensor);
  return states;
}

Variable Mamba2Op::operator()(const ProjectedQKV& input,
                              const AttentionContext& context,
                              const ForwardContext& pass) const {
  require_causal(context.mask, "mamba2");
  const ForwardContext rows = pass.of_all_rows();
  const DType sums = accumulator_of(input.value.value().dtype());
  const SharedRecurrence shared = shared_recurrence(input, passes_states_);
  const std::optional<SequenceShards>& shares = shared.exchanged.shares;
  const Tensor documents = gather_document_positions(context.mask, shares);
  ShardRange heads = input.heads;
  if (shares) {
    heads.count /= shares->ranks.size();
    heads.begin += shares->ranks.rank() * heads.count;
  }
  const auto own = [&](const Weight& weight) {
    return weight ? heads_of_vector(cast(weight->variable, sums), heads, input.heads) : Variable();
  };
  const Variable x = convolve_heads(gather_heads(input.value, shares),
                                    own(value_convolution_.weight),
                                    own(value_convolution_.bias),
                                    documents,
                                    chunk_state(input, 1),
                                    shared.passed);
  // Context ranks with some of the heads read a group that others read too.
  const auto groups = [&](const Linear& linear, const Convolution& taps, std::size_t index) {
    Variable all = linear(input.input, rows);
    if (shares) all = all_gather_sequence(all, shares->query_rows(), shares->ranks);
    all = convolve_positions(all,
                             cast(taps.weight->variable, sums),
                             {.bias = taps.bias ? cast(taps.bias->variable, sums) : Variable(),
                              .silu = true,
                              .document_position = documents,
                              .state = chunk_state(input, index)},
                             shared.passed);
    return groups_of_heads(all, all.shape()[2] / options_.mamba2.state, heads, input.heads);
  };
  const std::vector<double>& limit = options_.mamba2.step_limit;
  const Variable logits = step_(input.input, rows);
  const Variable steps =
      limit.empty() ? step_sizes(logits) : step_sizes(logits, limit[0], limit[1]);
  const Variable y = state_space(
      {.x = x,
       .b = groups(key_, key_convolution_, 2),
       .c = groups(query_, query_convolution_, 3),
       .step = gather_heads(steps, shares)},
      own(log_rate_),
      own(skip_),
      {.document_position = documents, .state = chunk_state(input, 0), .shares = shared.passed});
  const Variable mixed = local_shard(y, shared.exchanged);
  const Shape& shape = mixed.shape();
  const std::int64_t features = shape[2] * shape[3];
  const std::int64_t local_groups =
      options_.mamba2.groups * features / (options_.mamba2.dim * projection_shape()->value_heads);
  const Variable normed = gated_group_norm(reshape(mixed, {shape[0], shape[1], features}),
                                           gate_(input.input, rows),
                                           norm_->variable,
                                           local_groups,
                                           options_.epsilon);
  return reshape(normed, shape);
}

AttentionKind mamba2_kind() {
  AttentionKind kind = recurrent_kind(
      "mamba2", "as full, by a state with a decay and a step size of each head and token");
  kind.problem = problem_of_mamba2;
  kind.make = make_mamba2;
  return kind;
}

}  // namespace longspan
