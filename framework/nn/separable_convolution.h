// Transition of a Universal Transformer by two separable convolutions over time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/autograd/convolution.h"
#include "framework/nn/attention/attention_op.h"
#include "framework/nn/layers.h"

namespace longspan {

// y = P2 (D2 * (m drop(h))) + b2 with h = f(P1 (D1 * (m x)) + b1) (Dehghani et al. 2019): depthwise
// convolutions D over time, linear layers P, and a mask m of padding. For
// sequences of one rank, that ranks share or that are read in chunks. The hidden features are split
// over tensor ranks. Weights: "in" and "out", linear layers, each with "depthwise" [features,
// kernel size]. Value type.
class SeparableConvolution {
 public:
  struct Options {
    std::int64_t width = 0;
    std::int64_t hidden = 0;
    std::vector<std::int64_t> kernel_sizes = {3, 5};  // of D1 and D2
    Activation activation = Activation::relu;
    double dropout = 0;  // on the hidden layer
    std::optional<Initializer> initial = {};
    std::optional<Initializer> initial_out = {};  // of P2. None: `initial`.
    bool bias = true;
  };
  SeparableConvolution(const Scope& scope, const Options& options);

  // x: [batch, time, width] of the positions in pass.time. With a bidirectional mask the taps are
  // centered, and padding (context.mask.key_length) is not read. Otherwise taps read earlier tokens
  // of the same document, also those before a chunk (pass.kv_cache). Throws Failure for a
  // bidirectional mask with documents. Collective over the context ranks that share the sequence.
  Variable operator()(const Variable& x,
                      const AttentionContext& context,
                      const ForwardContext& pass) const;

 private:
  // Returns the depthwise convolution of x, inside split regions. index: 0 for D1, 1 for D2.
  Variable depthwise(const Variable& x,
                     std::size_t index,
                     const AttentionContext& context,
                     const ForwardContext& pass) const;

  ProcessMesh mesh_;
  TensorParallelRegion region_;
  ShardRange hidden_;
  Activation activation_;
  double dropout_;
  std::vector<Weight> depthwise_;
  Linear in_;
  Linear out_;
};

}  // namespace longspan
