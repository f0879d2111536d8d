// Reversible stacks (Gomez et al. 2017; Reformer, Kitaev et al. 2020, section 3).
#pragma once

#include "framework/nn/residual/residual.h"

namespace longspan {

// How the two streams become one at the end.
enum class StreamMerge : std::uint8_t {
  mean,        // (y1 + y2) / 2
  concatenate  // [y1; y2], twice as wide
};

// Two streams x1 and x2 begin as x. The sublayers add to them in turn: y1 = x1 + f(x2), y2 = x2 +
// g(y1), with f = drop(sublayer(norm(.))); the next layer takes y1 and y2. The backward pass
// rebuilds what each sublayer read, so that what is kept does not grow with depth. The streams are
// f32 whatever x is (f64 in float64): each rebuilding adds rounding errors of theirs. A layer
// remembers what its attention reads, x2; memories are constants. Sides are kept once, for all
// layers.
class ReversibleResidual : public Residual {
 public:
  // Whether the inputs are kept by the tape, as in any other function, or rebuilt. The values and
  // gradients are the same to rounding: kept streams are there to compare with.
  enum class Streams : std::uint8_t { rebuilt, kept };

  ReversibleResidual(StreamMerge join, double dropout, Streams streams = Streams::rebuilt)
      : join_(join), dropout_(dropout), streams_(streams) {}
  // Result: [batch, time, width or 2 width], in x's dtype.
  Variable run(std::span<const Layer> layers,
               const Variable& x,
               const StackInputs& reads,
               const ForwardContext& pass,
               const LayerRecorder& watch = {}) const override;

 private:
  StreamMerge join_;
  double dropout_;
  Streams streams_;
};

}  // namespace longspan
