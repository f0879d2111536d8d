// What the ways to run a stack have in common.
#pragma once

#include <span>

#include "framework/core/out_of_memory.h"
#include "framework/nn/residual/residual.h"

namespace longspan {

inline void check_memories(std::span<const Layer> layers, std::span<const Variable> memories) {
  require(memories.empty() || memories.size() == layers.size(),
          "{} layers were given {} memories",
          layers.size(),
          memories.size());
}

// What a sublayer of layer i gets of what the stack reads.
inline SublayerInputs shard_range(const StackInputs& reads,
                                  const Sublayer& sublayer,
                                  std::size_t i) {
  SublayerInputs part = {.context = reads.context};
  if (sublayer.reads == Reads::memory && !reads.memories.empty()) part.memory = reads.memories[i];
  if (sublayer.reads == Reads::sides) part.encoder_outputs = reads.encoder_outputs;
  return part;
}

// Sides are given to a recomputation as a list of their rows, and get others in their place there.
inline void append_rows(const std::vector<EncoderOutput>& sides, std::vector<Variable>& to) {
  for (const EncoderOutput& side : sides) to.push_back(side.rows);
}
inline std::vector<EncoderOutput> with_rows(std::vector<EncoderOutput> sides,
                                            std::span<const Variable> rows) {
  for (std::size_t i = 0; i < sides.size(); ++i) sides[i].rows = rows[i];
  return sides;
}
inline std::vector<EncoderOutput> without_rows(std::vector<EncoderOutput> sides) {
  for (EncoderOutput& side : sides) side.rows = {};
  return sides;
}

// Ops know shapes and no layers: what fails in one says here where it stands in the model.
inline Variable run_sublayer(const Sublayer& sublayer,
                             const Variable& x,
                             const SublayerInputs& reads,
                             const ForwardContext& pass) {
  const Span span({.kind = ActivityKind::layer, .layer = sublayer.name});
  try {
    return sublayer.run(x, reads, pass);
  } catch (const OutOfMemory&) {
    throw;  // it is of the machine, and answered with advice
  } catch (const Failure& failure) {
    if (sublayer.name.empty()) throw;
    throw Failure("{}: {}", sublayer.name, failure.what());
  }
}

// Who is shown what a sublayer of layer i looks at, or nullptr.
inline const CrossAttentionRecorder* shown_of(const LayerRecorder& watch,
                                              std::size_t i,
                                              const Sublayer& sublayer) {
  return watch.side.of(i) && sublayer.recorder ? &watch.side : nullptr;
}
// After the sublayer has run. x: as it was prepared for it.
inline void show(const CrossAttentionRecorder& side,
                 const Sublayer& sublayer,
                 const Variable& x,
                 const SublayerInputs& reads,
                 const ForwardContext& pass) {
  side.give(sublayer.recorder(x, reads, pass, side.heads));
}

// The pass of something that is computed again if it is recorded: its decisions are kept.
inline ForwardContext recomputed(ForwardContext pass) {
  if (is_recording() && !pass.decisions) pass.decisions = std::make_shared<DecisionCache>();
  return pass;
}

}  // namespace longspan
