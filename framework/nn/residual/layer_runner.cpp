#include "framework/nn/residual/layer_runner.h"

#include "framework/autograd/recompute.h"

namespace longspan {
namespace {

bool runs_again(const LayerRunner& walk, const Sublayer& sublayer) {
  return walk.again.granularity == RecomputeGranularity::selective &&
         sublayer.reads != Reads::nothing;
}

// `next`: sublayer that reads the result, or nullptr.
Stream run_one(const LayerRunner& walk,
               const Sublayer& sublayer,
               const Sublayer* next,
               Stream x,
               SublayerInputs reads,
               const ForwardContext& pass) {
  const bool prepares = next != nullptr && !runs_again(walk, *next);
  if (!runs_again(walk, sublayer))
    return walk.step(sublayer, prepares ? next : nullptr, std::move(x), std::move(reads), pass);
  std::vector<Variable> inputs = {x.value, std::exchange(reads.memory, {})};
  append_rows(reads.encoder_outputs, inputs);
  reads.encoder_outputs = without_rows(std::move(reads.encoder_outputs));
  return {recompute(
      [step = walk.step, sublayer, reads, again = recomputed(pass)](
          const std::vector<Variable>& in) {
        SublayerInputs given = reads;
        given.memory = in[1];
        given.encoder_outputs =
            with_rows(std::move(given.encoder_outputs), std::span(in).subspan(2));
        return step(sublayer, nullptr, {in[0]}, std::move(given), again).value;
      },
      inputs)};
}

// As run_one, and records cross-attention probabilities.
Stream run_shown(const LayerRunner& walk,
                 const Sublayer& sublayer,
                 const Sublayer* next,
                 Stream x,
                 const SublayerInputs& reads,
                 const ForwardContext& once,
                 const CrossAttentionRecorder& side) {
  // The norm is computed twice, but its decisions once.
  const ForwardContext pass = recomputed(once);
  const Variable input =
      x.norm.defined() ? x.norm : walk.prepared(sublayer, x.value, reads.context, pass);
  Stream result = run_one(walk, sublayer, next, std::move(x), reads, pass);
  show(side, sublayer, input, reads, pass);
  return result;
}

// Runs consecutive layers. `first`: index of the first; `memories` has one entry per layer.
Variable run_layers(const LayerRunner& walk,
                    std::span<const Layer> layers,
                    std::size_t first,
                    const Variable& x,
                    const StackInputs& reads,
                    const ForwardContext& pass,
                    const LayerRecorder& watch) {
  const auto next_of = [&](std::size_t i, std::size_t j) -> const Sublayer* {
    if (j + 1 < layers[i].sublayers.size()) return &layers[i].sublayers[j + 1];
    const bool reads_it = i + 1 < layers.size() && !layers[i + 1].enter;
    return reads_it ? &layers[i + 1].sublayers.front() : nullptr;
  };
  Stream stream = {x};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const ForwardContext layer_pass = pass.child(first + i);
    if (layers[i].enter) stream = {layers[i].enter(stream.value, layer_pass)};
    if (watch.input) watch.input(first + i, stream.value.value());
    const auto& sublayers = layers[i].sublayers;
    for (std::size_t j = 0; j < sublayers.size(); ++j) {
      const Sublayer& sublayer = sublayers[j];
      const Sublayer* const next = next_of(i, j);
      SublayerInputs part = shard_range(reads, sublayer, i);
      const ForwardContext own = layer_pass.child(j);
      const CrossAttentionRecorder* const side = shown_of(watch, first + i, sublayer);
      stream = side ? run_shown(walk, sublayer, next, std::move(stream), part, own, *side)
                    : run_one(walk, sublayer, next, std::move(stream), std::move(part), own);
    }
    if (watch.output) watch.output(first + i, stream.value);
  }
  return stream.value;
}

// As run_layers, recomputed in the backward pass.
Variable run_again(const LayerRunner& walk,
                   std::span<const Layer> layers,
                   std::size_t first,
                   const Variable& x,
                   const StackInputs& reads,
                   const ForwardContext& pass,
                   const LayerRecorder& watch) {
  std::vector<Variable> given = {x};
  append_rows(reads.encoder_outputs, given);
  if (!reads.memories.empty())
    for (std::size_t i = 0; i < layers.size(); ++i) given.push_back(reads.memories[first + i]);
  const auto run = [walk,
                    first,
                    again = recomputed(pass),
                    context = reads.context,
                    sides = without_rows(reads.encoder_outputs)](std::span<const Layer> of,
                                                                 const std::vector<Variable>& in,
                                                                 const LayerRecorder& seen) {
    const std::span<const Variable> extra = std::span(in).subspan(1);
    const std::span<const Variable> memories = extra.subspan(sides.size());
    const StackInputs own = {.memories = {memories.begin(), memories.end()},
                             .context = context,
                             .encoder_outputs = with_rows(sides, extra)};
    return run_layers(walk, of, first, in[0], own, again, seen);
  };
  return recompute(
      [&](const std::vector<Variable>& in) { return run(layers, in, {.input = watch.input}); },
      given,
      [run, own = std::vector<Layer>(layers.begin(), layers.end())](
          const std::vector<Variable>& in) { return run(own, in, {}); });
}

}  // namespace

Variable Residual::run(std::span<const Layer> layers,
                       const Variable& x,
                       const StackInputs& reads,
                       const ForwardContext& pass,
                       const LayerRecorder& watch) const {
  const Layer& first = layers.front();
  const auto& first_value = first.sublayers.front().first_value;
  if (!first_value) return run_layers(layers, x, reads, pass, watch);
  require(reads.encoder_outputs.empty(),
          "a value residual cannot be combined with cross-attention");
  // The norm is computed twice, but its decisions once.
  const ForwardContext shared = recomputed(pass);
  const ForwardContext of_layer = shared.child(0), own = of_layer.child(0);
  const Variable entered = first.enter ? first.enter(x, of_layer) : x;
  const Variable input = prepared(first.sublayers.front(), entered, reads.context, own);
  StackInputs all = reads;
  all.encoder_outputs = {{.rows = first_value(input, reads.context, own)}};
  return run_layers(layers, x, all, shared, watch);
}

Variable run_layer_stack(const LayerRunner& walk,
                         std::span<const Layer> layers,
                         const Variable& x,
                         const StackInputs& reads,
                         const ForwardContext& pass,
                         const LayerRecorder& watch) {
  check_memories(layers, reads.memories);
  if (walk.again.granularity != RecomputeGranularity::full)
    return run_layers(walk, layers, 0, x, reads, pass, watch);
  // Outputs passed to a recorder are stored in any case.
  const std::size_t together = watch.output ? 1 : static_cast<std::size_t>(walk.again.num_layers);
  Variable stream = x;
  for (std::size_t first = 0, count = 0; first < layers.size(); first += count) {
    const bool is_shown = watch.side.of(first);
    count = is_shown ? 1 : std::min(together, layers.size() - first);
    if (watch.side.give && watch.side.layer > first)
      count = std::min(count, watch.side.layer - first);
    const auto group = layers.subspan(first, count);
    if (is_shown) {
      stream = run_layers(walk, group, first, stream, reads, pass, watch);
      continue;
    }
    stream = run_again(walk, group, first, stream, reads, pass, watch);
    if (watch.output) watch.output(first, stream);
  }
  return stream;
}

}  // namespace longspan
