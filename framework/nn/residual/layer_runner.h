// Runs a single-stream stack layer by layer, with optional recomputation.
#pragma once

#include <functional>

#include "framework/nn/residual/sublayer.h"

namespace longspan {

// Stream between sublayers, with its norm for the next sublayer if already computed.
struct Stream {
  Variable value;
  Variable norm = {};
};

// Applies a sublayer to the stream. `next`: sublayer that reads the result and may reuse its norm,
// or nullptr.
using SublayerStep = std::function<Stream(const Sublayer& sublayer,
                                          const Sublayer* next,
                                          Stream x,
                                          SublayerInputs reads,
                                          const ForwardContext& pass)>;

struct LayerRunner {
  SublayerStep step;
  // Returns the input of a sublayer, as the step computes it, for recorders.
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
