#include "framework/autograd/recompute.h"
#include "framework/nn/residual/residual.h"
#include "framework/nn/residual/stack_pass.h"

namespace longspan {
namespace {

// What goes from sublayer to sublayer, and its norm as the next one reads it, where that is there
// already: it is made with the sum, which is then not read again.
struct Stream {
  Variable value;
  Variable norm = {};
};

// How each sublayer is run.
struct Step {
  NormPlacement placement;
  double dropout;
  bool attention_again;

  bool runs_again(const Sublayer& sublayer) const {
    return attention_again && sublayer.reads != Reads::nothing;
  }

  // `next`: the sublayer that reads the result, or nullptr.
  Stream operator()(const Sublayer& sublayer,
                    const Sublayer* next,
                    Stream x,
                    SublayerReads reads,
                    const Pass& pass) const {
    const bool prepares = next != nullptr && placement == NormPlacement::pre && !runs_again(*next);
    if (!runs_again(sublayer))
      return run(sublayer, prepares ? next : nullptr, std::move(x), std::move(reads), pass);
    std::vector<Variable> inputs = {x.value, std::exchange(reads.memory, {})};
    append_rows(reads.sides, inputs);
    reads.sides = without_rows(std::move(reads.sides));
    return {recompute(
        [step = *this, sublayer, reads, again = recomputed(pass)](const std::vector<Variable>& in) {
          SublayerReads given = reads;
          given.memory = in[1];
          given.sides = with_rows(std::move(given.sides), std::span(in).subspan(2));
          return step.run(sublayer, nullptr, {in[0]}, std::move(given), again).value;
        },
        inputs)};
  }

 private:
  Stream run(const Sublayer& sublayer,
             const Sublayer* next,
             Stream x,
             SublayerReads reads,
             const Pass& pass) const {
    const bool pre = placement == NormPlacement::pre;
    if (pre && reads.memory.defined()) reads.memory = sublayer.norm(reads.memory);
    if (!x.norm.defined()) x.norm = pre ? sublayer.norm(x.value) : x.value;
    Variable change = run_sublayer(sublayer, x.norm, reads, pass);
    reads = {};  // before more memory is taken
    x.norm = {};
    const Pass residual = pass.child("residual");
    if (!pre) return {sublayer.norm.of_sum(x.value, std::move(change), dropout, residual).norm};
    if (next == nullptr) return {add_dropped(x.value, change, dropout, residual)};
    NormedSum both = next->norm.of_sum(x.value, std::move(change), dropout, residual);
    return {std::move(both.sum), std::move(both.norm)};
  }
};

// Some layers that follow one another; `first` is the place of the first, the memories are theirs.
Variable run_layers(const Step& step,
                    std::span<const Layer> layers,
                    std::size_t first,
                    const Variable& x,
                    const StackReads& reads,
                    const Pass& pass,
                    const LayerWatch& watch) {
  const auto next_of = [&](std::size_t i, std::size_t j) -> const Sublayer* {
    if (j + 1 < layers[i].sublayers.size()) return &layers[i].sublayers[j + 1];
    return i + 1 < layers.size() ? &layers[i + 1].sublayers.front() : nullptr;
  };
  Stream stream = {x};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (watch.input) watch.input(first + i, stream.value.value());
    const Pass layer_pass = pass.child(first + i);
    const auto& sublayers = layers[i].sublayers;
    for (std::size_t j = 0; j < sublayers.size(); ++j)
      stream = step(sublayers[j],
                    next_of(i, j),
                    std::move(stream),
                    part_of(reads, sublayers[j], i),
                    layer_pass.child(j));
    if (watch.output) watch.output(first + i, stream.value);
  }
  return stream.value;
}

// The same, computed again in the backward pass.
Variable run_again(const Step& step,
                   std::span<const Layer> layers,
                   std::size_t first,
                   const Variable& x,
                   const StackReads& reads,
                   const Pass& pass,
                   const LayerWatch& watch) {
  std::vector<Variable> given = {x};
  append_rows(reads.sides, given);
  if (!reads.memories.empty())
    for (std::size_t i = 0; i < layers.size(); ++i) given.push_back(reads.memories[first + i]);
  const auto run = [step,
                    first,
                    again = recomputed(pass),
                    context = reads.context,
                    sides = without_rows(reads.sides)](std::span<const Layer> of,
                                                       const std::vector<Variable>& in,
                                                       const LayerWatch& seen) {
    const std::span<const Variable> beside = std::span(in).subspan(1);
    const std::span<const Variable> memories = beside.subspan(sides.size());
    const StackReads own = {.memories = {memories.begin(), memories.end()},
                            .context = context,
                            .sides = with_rows(sides, beside)};
    return run_layers(step, of, first, in[0], own, again, seen);
  };
  return recompute(
      [&](const std::vector<Variable>& in) { return run(layers, in, {.input = watch.input}); },
      given,
      [run, own = std::vector<Layer>(layers.begin(), layers.end())](
          const std::vector<Variable>& in) { return run(own, in, {}); });
}

}  // namespace

Variable PlainResidual::run(std::span<const Layer> layers,
                            const Variable& x,
                            const StackReads& reads,
                            const Pass& pass,
                            const LayerWatch& watch) const {
  check_memories(layers, reads.memories);
  const Step step = {placement_, dropout_, again_.kind == Recomputation::Kind::attention};
  if (again_.kind != Recomputation::Kind::layers)
    return run_layers(step, layers, 0, x, reads, pass, watch);
  // What is shown to somebody is kept anyway.
  const std::size_t together = watch.output ? 1 : static_cast<std::size_t>(again_.together);
  Variable stream = x;
  for (std::size_t first = 0; first < layers.size(); first += together) {
    const auto group = layers.subspan(first, std::min(together, layers.size() - first));
    stream = run_again(step, group, first, stream, reads, pass, watch);
    if (watch.output) watch.output(first, stream);
  }
  return stream;
}

}  // namespace longspan
