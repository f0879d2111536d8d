// Reversible stacks (Gomez et al. 2017; Reformer, Kitaev et al. 2020, section 3).
#pragma once

#include "framework/nn/residual/residual.h"

namespace longspan {

// Merge of the two streams at the end.
enum class StreamMerge : std::uint8_t {
  mean,        // (y1 + y2) / 2
  concatenate  // [y1; y2], twice as wide
};

// Two streams x1 and x2 start as x. The sublayers update them alternately: y1 = x1 + f(x2), y2 = x2
// + g(y1), with f = drop(sublayer(norm(.))). The next layer reads y1 and y2. The backward pass
// reconstructs the sublayer inputs, so that activation memory does not grow with depth. Streams are
// f32 (f64 in float64) whatever the dtype of x, since each reconstruction adds rounding errors. A
// layer stores as memory what its attention reads, x2. Memories are constants. Encoder outputs are
// stored once for all layers.
class ReversibleResidual : public Residual {
 public:
  // Reconstructs the inputs, or stores them on the tape as other functions do. Values and gradients
  // agree up to rounding. `kept` exists for comparison.
  enum class Streams : std::uint8_t { rebuilt, kept };

  ReversibleResidual(StreamMerge join, double dropout, Streams streams = Streams::rebuilt)
      : join_(join), dropout_(dropout), streams_(streams) {}

 private:
  // Returns [batch, time, width or 2 width] in x's dtype.
  Variable run_layers(std::span<const Layer> layers,
                      const Variable& x,
                      const StackInputs& reads,
                      const ForwardContext& pass,
                      const LayerRecorder& watch) const override;
  Variable prepared(const Sublayer& sublayer,
                    const Variable& x,
                    const AttentionContext& context,
                    const ForwardContext& pass) const override;

  StreamMerge join_;
  double dropout_;
  Streams streams_;
};

}  // namespace longspan
