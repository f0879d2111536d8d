// Stacks whose sublayers change the stream through gates (GTrXL, Parisotto et al. 2019).
#pragma once

#include "framework/nn/residual/residual.h"

namespace longspan {

// x = gate(x, drop(relu(f(norm(x))))), with the gate of each sublayer: norms stand only before
// functions, so that what goes in at the bottom can come out at the top as it is. What the backward
// pass needs is kept, but for what is computed again.
class GatedResidual : public Residual {
 public:
  struct Options {
    double dropout = 0;
    // Of what a sublayer gives: without it the sublayer's last matrix and the gate's first are two
    // linear maps that follow each other.
    bool relu = true;
    // Whether memories are normed as x is (the paper), or read as they were remembered.
    bool normed_memory = true;
    Recomputation again = {};
  };
  explicit GatedResidual(const Options& options) : options_(options) {}
  // Throws Failure where a sublayer has no gate.
  Variable run(std::span<const Layer> layers,
               const Variable& x,
               const StackInputs& reads,
               const ForwardContext& pass,
               const LayerRecorder& watch = {}) const override;

 private:
  Options options_;
};

}  // namespace longspan
