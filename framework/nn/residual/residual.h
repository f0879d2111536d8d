// How a stack of layers is run, and what is kept for the backward pass.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/nn/encoder_output.h"
#include "framework/nn/gate.h"
#include "framework/nn/layers.h"
#include "framework/nn/memory_options.h"

namespace longspan {

// What a stack reads besides x. A value.
struct StackInputs {
  std::vector<Variable> memories = {};              // what each layer remembers, or empty
  AttentionContext context = {};                    // of x's positions and of those before them
  std::vector<EncoderOutput> encoder_outputs = {};  // what cross-attention looks at
};

// The part of it that one sublayer gets.
struct SublayerInputs {
  Variable memory = {};  // prepared as x is (normalised or not); undefined where there is none
  AttentionContext context = {};
  std::vector<EncoderOutput> encoder_outputs = {};
};

// What a sublayer reads besides x and the context. What reads something is attention.
enum class Reads : std::uint8_t { nothing, memory, sides };

// One function with its norm. `run` gets the input as the residual strategy prepares it (normalised
// or not) and what the sublayer reads. A copy shares the weights.
struct Sublayer {
  Norm norm;
  Reads reads = Reads::nothing;
  std::function<Variable(const Variable& x, const SublayerInputs&, const ForwardContext&)> run;
  std::string name = {};                  // its place in the model, for messages
  std::shared_ptr<const Gate> gate = {};  // of a gated stack
  // What reads sides: what its first `heads` heads look at there (MultiHeadAttention).
  std::function<Variable(
      const Variable& x, const SublayerInputs&, const ForwardContext&, std::int64_t heads)>
      recorder = {};
};

// The sublayers of one layer; the input of the first is what Transformer-XL remembers.
struct Layer {
  std::vector<Sublayer> sublayers;
  // What the layer adds to its input, such as positions of its own: of x's shape. The stream has it
  // from there on; of a reversible stack only the first sublayer reads it. Empty: nothing.
  std::function<Variable(const Variable& x, const ForwardContext&)> enter = {};
};

// Whose attention to the sides is shown, and to whom.
struct CrossAttentionRecorder {
  std::size_t layer = 0;
  std::int64_t heads = 1;  // the first ones
  // As MultiHeadAttention::probabilities; what becomes of it brings gradients back to the layer.
  std::function<void(const Variable& probabilities)> give = {};

  bool of(std::size_t i) const { return give && layer == i; }
};

// What is shown of the layers as they are reached.
struct LayerRecorder {
  // What each layer's first sublayer reads, in x's dtype.
  std::function<void(std::size_t layer, const Tensor& input)> input = {};
  // What each layer gives (a reversible one: its streams, joined). Whoever takes it has an input of
  // the tape, whose gradient comes back to the layer. It is kept: a recomputation ends at it.
  std::function<void(std::size_t layer, const Variable& output)> output = {};
  // Its layer keeps its activations where others are computed again.
  CrossAttentionRecorder side = {};
};

// The function and the order of its random numbers are the same whatever is kept.
class Residual {
 public:
  virtual ~Residual() = default;
  // x: [batch, time, width]. The gradients of the sides are summed over the layers.
  virtual Variable run(std::span<const Layer> layers,
                       const Variable& x,
                       const StackInputs& reads,
                       const ForwardContext& pass,
                       const LayerRecorder& watch = {}) const = 0;
};

enum class NormPosition : std::uint8_t { post, pre };

// post: x = norm(x + drop(f(x))) (Vaswani et al. 2017). pre: x = x + drop(f(norm(x))). What the
// backward pass needs is kept, but for what is computed again.
class StandardResidual : public Residual {
 public:
  StandardResidual(NormPosition placement, double dropout, const Recomputation& again = {})
      : placement_(placement), dropout_(dropout), again_(again) {}
  Variable run(std::span<const Layer> layers,
               const Variable& x,
               const StackInputs& reads,
               const ForwardContext& pass,
               const LayerRecorder& watch = {}) const override;

 private:
  NormPosition placement_;
  double dropout_;
  Recomputation again_;
};

}  // namespace longspan
