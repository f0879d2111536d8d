// Auxiliary losses computed inside the layers of a stack, which may be recomputed in the backward
// pass. Their gradient is added where they are computed, and their value is collected by the pass.
#pragma once

#include <map>
#include <string>

#include "framework/autograd/variable.h"
#include "framework/nn/forward_context.h"

namespace longspan {

// Collects the auxiliary losses of one forward pass. Not thread-safe.
class LayerLossCollector {
 public:
  // seed: gradient of the loss, one element in the accumulator dtype. share: weight of this pass in
  // the loss of the full batch.
  LayerLossCollector(Tensor seed, double share) : seed_(std::move(seed)), share_(share) {}

  const Tensor& seed() const { return seed_; }
  double share() const { return share_; }

  // Sums by name, one element each, before weighting.
  struct Sum {
    Tensor total;
    double weight = 0;
  };
  const std::map<std::string, Sum>& sums() const { return sums_; }
  void add(const std::string& name, double weight, const Tensor& total);

 private:
  Tensor seed_;
  double share_;
  std::map<std::string, Sum> sums_;
};

// Returns x and adds `factor` * sum(x) to the auxiliary loss `name` of the pass, which enters the
// total loss times `weight`. Returns x unchanged if the pass collects no losses.
Variable collect_layer_loss(const Variable& x,
                            const std::string& name,
                            double weight,
                            double factor,
                            const ForwardContext& pass);

}  // namespace longspan
