// Losses that are made inside of a stack's layers, where the layers may be computed again in the
// backward pass: their gradient is added where they are made, and their value is told to the pass.
#pragma once

#include <map>
#include <string>

#include "framework/autograd/variable.h"
#include "framework/nn/forward_context.h"

namespace longspan {

// What one pass forward collects. Threads do not share it.
class LayerLossCollector {
 public:
  // seed: the gradient of the loss, one element in the dtype of sums. share: what part of the whole
  // batch's loss the loss of this pass is.
  LayerLossCollector(Tensor seed, double share) : seed_(std::move(seed)), share_(share) {}

  const Tensor& seed() const { return seed_; }
  double share() const { return share_; }

  // The sums by name, one element each, not yet weighted.
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

// x, whose sum times `factor` is a part of the value of the inner loss `name` of the pass: the loss
// gets `weight` times that. Nothing but x where the pass collects none.
Variable collect_layer_loss(const Variable& x,
                            const std::string& name,
                            double weight,
                            double factor,
                            const ForwardContext& pass);

}  // namespace longspan
