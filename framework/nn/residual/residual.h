// Residual strategies: how a stack of layers runs and what it stores for the backward pass.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/nn/attention/attention_op.h"
#include "framework/nn/gate.h"
#include "framework/nn/layers.h"
#include "framework/nn/memory_options.h"

namespace longspan {

// Inputs of a stack in addition to x. Value type.
struct StackInputs {
  std::vector<Variable> memories = {};  // Transformer-XL memory of each layer, or empty
  AttentionContext context = {};        // for the positions of x and those before them
  // encoder outputs for cross-attention; in a stack with a value residual instead one entry, whose
  // rows are the values of the first layer
  std::vector<EncoderOutput> encoder_outputs = {};
};

// Subset of StackInputs that one sublayer receives.
struct SublayerInputs {
  Variable memory = {};  // normalized if x is; undefined: no memory
  AttentionContext context = {};
  std::vector<EncoderOutput> encoder_outputs = {};
};

// Input of a sublayer in addition to x and the context. Sublayers that read memory or sides
// (encoder outputs, or the values of the first layer) are attention.
enum class Reads : std::uint8_t { nothing, memory, sides };

// A function with its norm. `run` receives the input as the residual strategy prepares it
// (normalized or not). Copies share the weights.
struct Sublayer {
  Norm norm;
  Reads reads = Reads::nothing;
  std::function<Variable(const Variable& x, const SublayerInputs&, const ForwardContext&)> run;
  std::string name = {};                  // path in the model, for messages
  std::shared_ptr<const Gate> gate = {};  // only in a gated stack
  // Only with Reads::sides: returns the cross-attention probabilities of the first `heads` heads
  // (MultiHeadAttention::probabilities).
  std::function<Variable(
      const Variable& x, const SublayerInputs&, const ForwardContext&, std::int64_t heads)>
      recorder = {};
  // Only of a stack's first sublayer, with Reads::sides: returns its values, which attention of all
  // layers reads (AttentionOp::first_value).
  std::function<Variable(const Variable& x, const AttentionContext&, const ForwardContext&)>
      first_value = {};
};

// Sublayers of one layer. The input of the first is what Transformer-XL stores as memory.
struct Layer {
  std::vector<Sublayer> sublayers;
  // Returns a term, in the shape of x, that is added to the layer's input, such as per-layer
  // positions. The stream includes it from there on, but in a reversible stack only the first
  // sublayer reads it. Empty: none.
  std::function<Variable(const Variable& x, const ForwardContext&)> enter = {};
};

// Selects the layer whose cross-attention probabilities are passed to a callback.
struct CrossAttentionRecorder {
  std::size_t layer = 0;
  std::int64_t heads = 1;  // number of first heads to average
  // Receives MultiHeadAttention::probabilities. Losses computed from them propagate gradients to
  // the layer.
  std::function<void(const Variable& probabilities)> give = {};

  bool of(std::size_t i) const { return give && layer == i; }
};

// Callbacks invoked as the layers run.
struct LayerRecorder {
  // Receives the input of each layer's first sublayer, in x's dtype.
  std::function<void(std::size_t layer, const Tensor& input)> input = {};
  // Receives the output of each layer (reversible: the merged streams) as a variable whose gradient
  // flows back to the layer. The output is stored: recomputation stops at it.
  std::function<void(std::size_t layer, const Variable& output)> output = {};
  // The layer it selects stores its activations even if others are recomputed.
  CrossAttentionRecorder side = {};
};

// Function values and the order of random numbers do not depend on what is stored.
class Residual {
 public:
  virtual ~Residual() = default;
  // x: [batch, time, width]. Sums the gradients of encoder outputs over the layers.
  Variable run(std::span<const Layer> layers,
               const Variable& x,
               const StackInputs& reads,
               const ForwardContext& pass,
               const LayerRecorder& watch = {}) const;

 private:
  virtual Variable run_layers(std::span<const Layer> layers,
                              const Variable& x,
                              const StackInputs& reads,
                              const ForwardContext& pass,
                              const LayerRecorder& watch) const = 0;
  // Returns the input of a sublayer as `run_layers` prepares it, computed a second time. x: the
  // stream. (With per-layer positions, narrow dtypes and reversible residuals, x is rounded once
  // more than there.)
  virtual Variable prepared(const Sublayer& sublayer,
                            const Variable& x,
                            const AttentionContext& context,
                            const ForwardContext& pass) const = 0;
};

enum class NormPosition : std::uint8_t { post, pre };

// post: x = norm(x + drop(f(x))) (Vaswani et al. 2017). pre: x = x + drop(f(norm(x))). Stores what
// the backward pass needs, except for recomputed layers.
class StandardResidual : public Residual {
 public:
  StandardResidual(NormPosition placement, double dropout, const Recomputation& again = {})
      : placement_(placement), dropout_(dropout), again_(again) {}

 private:
  Variable run_layers(std::span<const Layer> layers,
                      const Variable& x,
                      const StackInputs& reads,
                      const ForwardContext& pass,
                      const LayerRecorder& watch) const override;
  Variable prepared(const Sublayer& sublayer,
                    const Variable& x,
                    const AttentionContext& context,
                    const ForwardContext& pass) const override;

  NormPosition placement_;
  double dropout_;
  Recomputation again_;
};

}  // namespace longspan
