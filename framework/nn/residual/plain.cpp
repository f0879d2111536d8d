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
    return attention_again && sublayer.reads_memory;
  }

  // `next`: the sublayer that reads the result, or nullptr.
  Stream operator()(const Sublayer& sublayer,
                    const Sublayer* next,
                    Stream x,
                    const Variable& memory,
                    const SegmentContext& context,
                    const Pass& pass) const {
    const bool prepares = next != nullptr && placement == NormPlacement::pre && !runs_again(*next);
    if (!runs_again(sublayer))
      return run(sublayer, prepares ? next : nullptr, std::move(x), memory, context, pass);
    return {recompute(
        [step = *this, sublayer, context, again = recomputed(pass)](
            const std::vector<Variable>& in) {
          return step.run(sublayer, nullptr, {in[0]}, in[1], context, again).value;
        },
        {x.value, memory})};
  }

 private:
  Stream run(const Sublayer& sublayer,
             const Sublayer* next,
             Stream x,
             const Variable& memory,
             const SegmentContext& context,
             const Pass& pass) const {
    const bool pre = placement == NormPlacement::pre;
    const Variable before = pre && memory.defined() ? sublayer.norm(memory) : memory;
    if (!x.norm.defined()) x.norm = pre ? sublayer.norm(x.value) : x.value;
    Variable change = run_sublayer(sublayer, x.norm, before, context, pass);
    x.norm = {};  // before more memory is taken
    const Pass residual = pass.child("residual");
    if (!pre) return {sublayer.norm.of_sum(x.value, std::move(change), dropout, residual).norm};
    if (next == nullptr) return {add_dropped(x.value, change, dropout, residual)};
    NormedSum both = next->norm.of_sum(x.value, std::move(change), dropout, residual);
    return {std::move(both.sum), std::move(both.norm)};
  }
};

// Some layers that follow one another; `first` is the place of the first.
Variable run_layers(const Step& step,
                    std::span<const Layer> layers,
                    std::size_t first,
                    const Variable& x,
                    std::span<const Variable> memories,
                    const SegmentContext& context,
                    const Pass& pass,
                    const LayerInputs& inputs) {
  const auto next_of = [&](std::size_t i, std::size_t j) -> const Sublayer* {
    if (j + 1 < layers[i].sublayers.size()) return &layers[i].sublayers[j + 1];
    return i + 1 < layers.size() ? &layers[i + 1].sublayers.front() : nullptr;
  };
  Stream stream = {x};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (inputs) inputs(first + i, stream.value.value());
    const Pass layer_pass = pass.child(first + i);
    const auto& sublayers = layers[i].sublayers;
    for (std::size_t j = 0; j < sublayers.size(); ++j)
      stream = step(sublayers[j],
                    next_of(i, j),
                    std::move(stream),
                    memory_of(sublayers[j], memories, i),
                    context,
                    layer_pass.child(j));
  }
  return stream.value;
}

}  // namespace

Variable PlainResidual::run(std::span<const Layer> layers,
                            const Variable& x,
                            std::span<const Variable> memories,
                            const SegmentContext& context,
                            const Pass& pass,
                            const LayerInputs& inputs) const {
  check_memories(layers, memories);
  const Step step = {placement_, dropout_, again_.kind == Recomputation::Kind::attention};
  if (again_.kind != Recomputation::Kind::layers)
    return run_layers(step, layers, 0, x, memories, context, pass, inputs);
  const auto together = static_cast<std::size_t>(again_.together);
  Variable stream = x;
  for (std::size_t first = 0; first < layers.size(); first += together) {
    const auto group = layers.subspan(first, std::min(together, layers.size() - first));
    std::vector<Variable> given = {stream};
    if (!memories.empty())
      for (std::size_t i = 0; i < group.size(); ++i) given.push_back(memories[first + i]);
    const Pass again = recomputed(pass);
    const auto run_group =
        [=](std::span<const Layer> of, const std::vector<Variable>& in, const LayerInputs& seen) {
          return run_layers(step, of, first, in[0], std::span(in).subspan(1), context, again, seen);
        };
    stream =
        recompute([&](const std::vector<Variable>& in) { return run_group(group, in, inputs); },
                  given,
                  [run_group, own = std::vector<Layer>(group.begin(), group.end())](
                      const std::vector<Variable>& in) { return run_group(own, in, {}); });
  }
  return stream;
}

}  // namespace longspan
