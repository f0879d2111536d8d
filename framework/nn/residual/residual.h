// How a stack of layers is run, and what is kept for the backward pass.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/nn/attention/mechanism.h"
#include "framework/nn/layers.h"
#include "framework/nn/memory_options.h"

namespace longspan {

// One function with its norm. `run` gets the input as the residual strategy prepares it (normalised
// or not), the memory prepared likewise (undefined where there is none or the sublayer does not
// read it). A copy shares the weights.
struct Sublayer {
  Norm norm;
  bool reads_memory = false;  // attention
  std::function<Variable(
      const Variable& x, const Variable& memory, const SegmentContext&, const Pass&)>
      run;
  std::string name = {};  // its place in the model, for messages
};

// The sublayers of one layer; the input of the first is what Transformer-XL remembers.
struct Layer {
  std::vector<Sublayer> sublayers;
};

// Called with what each layer's first sublayer reads, as it is reached, in x's dtype.
using LayerInputs = std::function<void(std::size_t layer, const Tensor& input)>;

// The function and the order of its random numbers are the same whatever is kept.
class Residual {
 public:
  virtual ~Residual() = default;
  // x: [batch, time, width]. memories: what each layer remembers, or empty.
  virtual Variable run(std::span<const Layer> layers,
                       const Variable& x,
                       std::span<const Variable> memories,
                       const SegmentContext& context,
                       const Pass& pass,
                       const LayerInputs& inputs) const = 0;
};

enum class NormPlacement : std::uint8_t { post, pre };

// post: x = norm(x + drop(f(x))) (Vaswani et al. 2017). pre: x = x + drop(f(norm(x))). What the
// backward pass needs is kept, but for what is computed again.
class PlainResidual : public Residual {
 public:
  PlainResidual(NormPlacement placement, double dropout, const Recomputation& again = {})
      : placement_(placement), dropout_(dropout), again_(again) {}
  Variable run(std::span<const Layer> layers,
               const Variable& x,
               std::span<const Variable> memories,
               const SegmentContext& context,
               const Pass& pass,
               const LayerInputs& inputs) const override;

 private:
  NormPlacement placement_;
  double dropout_;
  Recomputation again_;
};

}  // namespace longspan
