#include "models/stack.h"

#include "framework/nn/attention/kept_keys.h"

namespace longspan {

std::vector<Layer> make_layers(const Scope& scope,
                               const StackOptions& options,
                               const MechanismFactory& mechanism) {
  const ModelOptions& common = options.common;
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < common.layers; ++i) {
    const Scope layer = scope.child("layers").child(i);
    const Scope attention_scope = layer.child("attention");
    const auto norm = [&](const Scope& sublayer) {
      return Norm(sublayer.child("norm"), common.width, options.initial_gain);
    };
    // Closures are copied, layers are not.
    const auto attention = std::make_shared<MultiHeadAttention>(
        attention_scope,
        MultiHeadAttention::Options{.width = common.width,
                                    .heads = common.heads,
                                    .dim = common.head_dim(),
                                    .bias = options.attention_bias,
                                    .initial = common.initial(),
                                    .initial_out = options.initial_out},
        mechanism(attention_scope, i));
    const auto feed_forward = std::make_shared<FeedForward>(
        layer.child("feed_forward"),
        FeedForward::Options{.width = common.width,
                             .hidden = common.hidden(),
                             .activation = common.activation,
                             .dropout = common.dropout,
                             .initial = common.initial(),
                             .initial_out = options.initial_out,
                             .chunks = options.memory.feed_forward_chunks});
    Sublayer attend = {
        .norm = norm(attention_scope),
        .reads_memory = true,
        .run = [attention](const Variable& x,
                           const Variable& memory,
                           const SegmentContext& context,
                           const Pass& pass) { return (*attention)(x, memory, context, pass); },
        .name = attention_scope.path()};
    Sublayer feed = {.norm = norm(layer.child("feed_forward")),
                     .run = [feed_forward](const Variable& x,
                                           const Variable&,
                                           const SegmentContext&,
                                           const Pass& pass) { return (*feed_forward)(x, pass); },
                     .name = layer.child("feed_forward").path()};
    layers.push_back({{std::move(attend), std::move(feed)}});
  }
  return layers;
}

std::unique_ptr<Residual> make_residual(const ModelOptions& options, const MemoryOptions& memory) {
  refuse(recompute_problem(options, memory));
  refuse(reconstruction_problem(options, memory));
  if (options.residual == ResidualKind::plain)
    return std::make_unique<PlainResidual>(options.norm, options.dropout, memory.recomputation());
  return std::make_unique<ReversibleResidual>(options.reversible_output,
                                              options.dropout,
                                              memory.keep_streams
                                                  ? ReversibleResidual::Streams::kept
                                                  : ReversibleResidual::Streams::rebuilt);
}

Ranges positions_of(const Pass& pass) {
  Ranges positions = pass.time.outside();
  if (!pass.kept) return positions;
  for (Range& range : positions) {
    range.begin += pass.kept->positions();
    range.end += pass.kept->positions();
  }
  return positions;
}

std::int64_t end_of(const Pass& pass) {
  return pass.time.total + (pass.kept ? pass.kept->positions() : 0);
}

BodyEnd body_end(const ModelOptions& options) {
  BodyEnd end = {.width = options.output_width(), .initial = options.initial()};
  if (options.has_final_norm()) end.norm = Initial::constant(1);
  return end;
}

FlopCount stack_flops(const ModelOptions& options, const StackCost& cost) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double rows = number(cost.streams * cost.time);
  const double memory_rows = number(cost.streams * cost.memory);
  const double width = number(options.width);
  const double inner = number(options.heads * options.head_dim());
  const double distances = cost.relative ? number(cost.time + cost.memory) : 0;
  const double scores = 2 * inner * (cost.relative ? 3 : 2) * number(cost.streams) * cost.pairs;
  // Products whose two gradients are both needed, and those with a constant input, where one is.
  // Queries and keys of lsh are one projection, global positions may have three more.
  std::int64_t projections = 4 * options.layers;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    projections -= is_lsh(options.attention, i);
    projections += 3 * projects_global(options.attention, i);
  }
  const double products =
      number(projections) * inner + number(2 * options.layers) * number(options.hidden());
  const double whole = 2 * width * rows * products;
  const double constant_input = 2 * width * inner * (2 * memory_rows + distances);
  const double layers = number(options.layers);
  const double logits = 2 * rows * number(options.output_width()) * number(cost.vocabulary);
  const bool memory_is_normed = options.norm == NormPlacement::pre;
  const double through_memory = memory_is_normed ? 2 * width * inner * 2 * memory_rows : 0;
  return {
      .forward = whole + layers * constant_input + scores + logits,
      .backward = 2 * whole + layers * (constant_input + through_memory) + 2 * scores + 2 * logits};
}

double stack_pairs(const ModelOptions& options,
                   const std::vector<AttentionPattern>& patterns,
                   const Mask& own,
                   std::int64_t time,
                   std::int64_t memory,
                   const Device& device) {
  double pairs = 0;
  for (std::size_t layer = 0; layer < patterns.size(); ++layer)
    pairs += is_lsh(options.attention, static_cast<std::int64_t>(layer))
                 ? lsh_pairs(options.attention.lsh, time, own == masks::causal())
                 : attention_pairs(patterns[layer], own, time, memory, device);
  return pairs;
}

}  // namespace longspan
