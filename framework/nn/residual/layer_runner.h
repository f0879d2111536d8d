// Running a stack of one stream, layer by layer, all of it kept or some of it computed again.
#pragma once

#include <functional>

#include "framework/nn/residual/sublayer.h"

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
                                          SublayerInputs reads,
                                          const ForwardContext& pass)>;

struct LayerRunner {
  SublayerStep step;
  // The stream as a sublayer reads it, for whom it is shown to: the step reads it too.
  std::function<Variable(const Sublayer& sublayer,
                         const Variable& x,
                         const AttentionContext& context,
                         const ForwardContext& pass)>
      prepared;
  Recomputation again = {};
};

// As Residual::run.
Variable run_layer_stack(const LayerRunner& walk,
                         std::span<const Layer> layers,
                         const Variable& x,
                         const StackInputs& reads,
                         const ForwardContext& pass,
                         const LayerRecorder& watch);

}  // namespace longspan
