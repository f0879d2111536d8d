// Helpers shared by the residual strategies.
#pragma once

#include <span>

#include "framework/core/allocator.h"
#include "framework/core/span.h"
#include "framework/nn/residual/residual.h"

namespace longspan {

inline void check_memories(std::span<const Layer> layers, std::span<const Variable> memories) {
  require(memories.empty() || memories.size() == layers.size(),
          "expected a memory for each of {} layers, found {}",
          layers.size(),
          memories.size());
}

// Returns the inputs of a sublayer of layer i.
inline SublayerInputs shard_range(const StackInputs& reads,
                                  const Sublayer& sublayer,
                                  std::size_t i) {
  SublayerInputs part = {.context = reads.context};
  if (sublayer.reads == Reads::memory && !reads.memories.empty()) part.memory = reads.memories[i];
  if (sublayer.reads == Reads::sides) part.encoder_outputs = reads.encoder_outputs;
  return part;
}

// Recomputation receives encoder outputs as a list of rows, and substitutes other rows for them.
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

// Adds the sublayer's path to the message of a Failure, since ops have only shapes.
inline Variable run_sublayer(const Sublayer& sublayer,
                             const Variable& x,
                             const SublayerInputs& reads,
                             const ForwardContext& pass) {
  const Span span({.kind = ActivityKind::layer, .layer = sublayer.name});
  try {
    return sublayer.run(x, reads, pass);
  } catch (const OutOfMemory&) {
    throw;  // a machine condition, reported with hints elsewhere
  } catch (const Failure& failure) {
    if (sublayer.name.empty()) throw;
    throw Failure("{}: {}", sublayer.name, failure.what());
  }
}

// Returns the recorder for a sublayer of layer i, or nullptr.
inline const CrossAttentionRecorder* shown_of(const LayerRecorder& watch,
                                              std::size_t i,
                                              const Sublayer& sublayer) {
  return watch.side.of(i) && sublayer.recorder ? &watch.side : nullptr;
}
// Requires a call after the sublayer has run. x: input as prepared for it.
inline void show(const CrossAttentionRecorder& side,
                 const Sublayer& sublayer,
                 const Variable& x,
                 const SublayerInputs& reads,
                 const ForwardContext& pass) {
  side.give(sublayer.recorder(x, reads, pass, side.heads));
}

// Returns the context of a function that is recomputed if recorded: its decisions are cached.
inline ForwardContext recomputed(ForwardContext pass) {
  if (is_recording() && !pass.decisions) pass.decisions = std::make_shared<DecisionCache>();
  return pass;
}

}  // namespace longspan
