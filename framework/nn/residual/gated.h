// Gated residual stacks (GTrXL, Parisotto et al. 2019).
#pragma once

#include "framework/nn/residual/residual.h"

namespace longspan {

// x = gate(x, drop(relu(f(norm(x))))), with the gate of each sublayer. Norms only precede
// functions, so that the stream has an identity path from input to output. Stores what the backward
// pass needs, except for recomputed layers.
class GatedResidual : public Residual {
 public:
  struct Options {
    double dropout = 0;
    // Applies relu to the output of a sublayer. Without it the last matrix of the sublayer and the
    // first of the gate are two consecutive linear maps.
    bool relu = true;
    // Normalizes memories as x is (the paper), or reads them as stored.
    bool normed_memory = true;
    Recomputation again = {};
  };
  explicit GatedResidual(const Options& options) : options_(options) {}

 private:
  // Throws Failure if a sublayer has no gate.
  Variable run_layers(std::span<const Layer> layers,
                      const Variable& x,
                      const StackInputs& reads,
                      const ForwardContext& pass,
                      const LayerRecorder& watch) const override;
  Variable prepared(const Sublayer& sublayer,
                    const Variable& x,
                    const AttentionContext& context,
                    const ForwardContext& pass) const override;

  Options options_;
};

}  // namespace longspan
