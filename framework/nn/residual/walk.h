// Running a stack of one stream, layer by layer, all of it kept or some of it computed again.
#pragma once

#include <functional>

#include "framework/nn/residual/stack_pass.h"

namespace longspan {

// What goes from sublayer to sublayer, and its norm as the next one reads it, where that is there
// already.
struct Stream {
  Variable value;
  Variable norm = {};
};

// How a sublayer changes the stream. `next`: the sublayer that reads the result and may take its
// norm from there, or nullptr.
using SublayerStep = std::function<Stream(const Sublayer& sublayer,
                                          const Sublayer* next,
                                          Stream x,
                                          SublayerReads reads,
                                          const Pass& pass)>;

struct LayerWalk {
  SublayerStep step;
  // The stream as a sublayer reads it, for whom it is shown to: the step reads it too.
  std::function<Variable(
      const Sublayer& sublayer, const Variable& x, const SegmentContext& context, const Pass& pass)>
      prepared;
  Recomputation again = {};
};

// As Residual::run.
Variable walk_layers(const LayerWalk& walk,
                     std::span<const Layer> layers,
                     const Variable& x,
                     const StackReads& reads,
                     const Pass& pass,
                     const LayerWatch& watch);

}  // namespace longspan
