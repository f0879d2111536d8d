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

// What a sublayer of layer i reads of the memories; undefined where it reads none.
inline Variable memory_of(const Sublayer& sublayer,
                          std::span<const Variable> memories,
                          std::size_t i) {
  return sublayer.reads_memory && !memories.empty() ? memories[i] : Variable();
}

// Ops know shapes and no layers: what fails in one says here where it stands in the model.
inline Variable run_sublayer(const Sublayer& sublayer,
                             const Variable& x,
                             const Variable& memory,
                             const SegmentContext& context,
                             const Pass& pass) {
  try {
    return sublayer.run(x, memory, context, pass);
  } catch (const OutOfMemory&) {
    throw;  // it is of the machine, and answered with advice
  } catch (const Failure& failure) {
    if (sublayer.name.empty()) throw;
    throw Failure("{}: {}", sublayer.name, failure.what());
  }
}

// The pass of something that is computed again if it is recorded: its decisions are kept.
inline Pass recomputed(Pass pass) {
  if (is_recording()) pass.decisions = std::make_shared<Decisions>();
  return pass;
}

}  // namespace longspan
