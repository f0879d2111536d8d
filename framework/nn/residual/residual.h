// How a stack of layers is run, and what is kept for the backward pass.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "framework/nn/attention/mechanism.h"
#include "framework/nn/layers.h"

namespace longspan {

// One function with its norm. `run` gets the input as the residual strategy prepares it (normalised
// or not), the memory prepared likewise (undefined where there is none or the sublayer does not
// read it).
struct Sublayer {
  Norm norm;
  bool reads_memory = false;
  std::function<Variable(
      const Variable& x, const Variable& memory, const SegmentContext&, const Pass&)>
      run;
};

// The sublayers of one layer; its input is what Transformer-XL remembers.
struct Layer {
  std::vector<Sublayer> sublayers;
};

// Called with the input of each layer as it is reached.
using LayerInputs = std::function<void(std::size_t layer, const Tensor& input)>;

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

// post: x = norm(x + drop(f(x))) (Vaswani et al. 2017). pre: x = x + drop(f(norm(x))). Everything
// the backward pass needs is kept.
class PlainResidual : public Residual {
 public:
  PlainResidual(NormPlacement placement, double dropout)
      : placement_(placement), dropout_(dropout) {}
  Variable run(std::span<const Layer> layers,
               const Variable& x,
               std::span<const Variable> memories,
               const SegmentContext& context,
               const Pass& pass,
               const LayerInputs& inputs) const override;

 private:
  Variable run(const Sublayer& sublayer,
               const Variable& x,
               const Variable& memory,
               const SegmentContext& context,
               const Pass& pass) const;

  NormPlacement placement_;
  double dropout_;
};

}  // namespace longspan
