// Basic layers: linear, norm, dropout, feed-forward, and the tensor-parallel region.
#pragma once

#include <optional>
#include <string>

#include "framework/autograd/collectives.h"
#include "framework/autograd/norms.h"
#include "framework/autograd/ops.h"
#include "framework/nn/forward_context.h"
#include "framework/nn/lora.h"
#include "framework/nn/parameters.h"
#include "framework/nn/power_statistics.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// Value type. Inside a region each tensor rank holds its part of the features or heads. Outside,
// all tensor ranks hold the same activations or, with sequence parallelism, each its share of the
// positions. In the latter case every gradient outside is this rank's summand of a sum over the
// tensor ranks. Parameters::divided returns which weight gradients must be summed.
class TensorParallelRegion {
 public:
  explicit TensorParallelRegion(const Communicator& tensor) : tensor_(tensor) {}

  // Returns true if nothing is split. Depends on the number of ranks, not on the shard: one rank's
  // shard may be a full axis that is shorter than the number of ranks.
  bool whole() const { return tensor_.size() == 1; }

  // x: [batch, time, width] of this rank's positions in `time`. Returns the positions of all tensor
  // ranks, or x without sequence parallelism. The backward pass sums the gradients over the ranks.
  Variable enter(const Variable& x, const SequenceShard& time) const {
    return time.divided() ? gather_from_sequence_parallel_region(x, time.rows(), tensor_)
                          : copy_to_tensor_parallel_region(x, tensor_);
  }
  // For inputs that every tensor rank holds in full: weights that are not split, tables.
  Variable enter_replicated(const Variable& x, const SequenceShard& time) const {
    return time.divided() ? x : copy_to_tensor_parallel_region(x, tensor_);
  }
  // Returns the sum over the ranks, for the positions that this rank holds outside.
  Variable leave(Variable&& x, const SequenceShard& time) const {
    return time.divided() ? reduce_scatter_to_sequence_parallel_region(x, time.rows(), tensor_)
                          : reduce_from_tensor_parallel_region(std::move(x), tensor_);
  }

 private:
  Communicator tensor_;
};

// Split of a linear layer over tensor ranks (Shoeybi et al. 2019).
enum class ParallelMode : std::uint8_t {
  none,
  columns,  // each rank computes part of the outputs; the input must be inside the region
  rows,     // each rank holds part of the inputs; the output is outside the region
};

// y = x W^T + b. Parameters: "weight" [out, in] and, if enabled, "bias" [out]. A row split adds the
// bias once, after the sum over the ranks. A layer between hidden states has a LoRA adapter if
// fine-tuning targets it.
class Linear {
 public:
  struct Options {
    std::int64_t in = 0;
    std::int64_t out = 0;
    ParallelMode split = ParallelMode::none;
    bool bias = true;
    std::optional<Initializer> initial = {};  // none: Xavier
    Initializer initial_bias = Initializer::constant(0);
    bool hidden = true;  // see Parameter::hidden
  };
  Linear(const Scope& scope, const Options& options);

  // x: [..., this rank's `in`]. Applies no dropout. Throws Failure naming the layer if the width
  // differs. Not for a row split.
  Variable operator()(const Variable& x) const;
  // x: [batch, time, this rank's `in`] of the positions in pass.time, or the rows in
  // pass.active_rows. Requires x inside the region if the layer is split. The output of a row split
  // is outside the region.
  Variable operator()(const Variable& x, const ForwardContext& pass) const;
  // Computes a row split in two steps: `share` returns this rank's partial output of each row,
  // `join` sums the partial outputs.
  Variable share(const Variable& x, const ForwardContext& pass) const;
  Variable join(Variable&& shares, const SequenceShard& time) const;

  // For fused ops over a layer without an adapter. `bias` returns an undefined variable if there is
  // no bias or if `join` adds it.
  bool adapted() const { return adapter_.has_value(); }
  const Variable& weight() const { return weight_->variable; }
  Variable bias() const;
  void check_width(const Variable& x) const;

 private:
  Variable product(const Variable& x, const ForwardContext* pass) const;

  std::string name_;
  TensorParallelRegion region_;
  ParallelMode split_;
  Weight weight_;
  Weight bias_;
  std::optional<LoraAdapter> adapter_;
};

enum class NormKind : std::uint8_t {
  layer,  // Ba et al. 2016
  rms,    // Zhang and Sennrich 2019
  power   // Shen et al. 2020
};

// Norm of a model. Converts implicitly from a kind.
struct NormOptions {
  NormKind kind = NormKind::layer;
  PowerOptions power = {};
  double epsilon = 1e-5;       // added to the mean square
  bool zero_centered = false;  // the gain is 1 + weight, and weights start at 0 (Gemma, Qwen3-Next)

  NormOptions(NormKind of = NormKind::layer, const PowerOptions& moving = {}, double added = 1e-5)
      : kind(of), power(moving), epsilon(added) {}
};

// Gain of a norm: a weight [width], or 1 + weight. Value type.
struct Gain {
  Weight weight;
  bool zero_centered = false;

  Variable operator()() const {
    return zero_centered ? add_scalar(weight->variable, 1) : weight->variable;
  }
};

// Parameters: "weight" [width] and, except for rms, "bias" [width]. A power norm also has running
// statistics, which follow the rows given with a pass.
class Norm {
 public:
  Norm(const Scope& scope,
       std::int64_t width,
       const NormOptions& form = {},
       const Initializer& gain = Initializer::constant(1));
  // Returns the norm in x's dtype or, for f32 x, in a narrower one. For rows that the statistics
  // already include, such as Transformer-XL memory.
  Variable operator()(const Variable& x, std::optional<DType> dtype = {}) const;
  // x: [batch, time, width], the positions in pass.time. length: [batch] i64, number of positions
  // that are not padding. Undefined: all.
  Variable operator()(const Variable& x,
                      const ForwardContext& pass,
                      const Tensor& length,
                      std::optional<DType> dtype = {}) const;
  // As above, for rows that this norm reads a second time in the pass, with the same decisions.
  Variable second_read(const Variable& x,
                       const ForwardContext& pass,
                       const Tensor& length,
                       std::optional<DType> dtype = {}) const;
  // Returns dropout_add(x, change, rate, pass) and its norm, which reuses the storage of `change`.
  ResidualNorm of_sum(const Variable& x,
                      Variable&& change,
                      double rate,
                      const ForwardContext& pass,
                      const Tensor& length = {}) const;

 private:
  double epsilon_;
  Gain gain_;
  Weight bias_;                                  // none for rms
  std::shared_ptr<PowerStatistics> statistics_;  // only for power
};

// Dropout of an activation [batch, time, width]. Inside a split region `part` gives the features of
// this rank. With pass.active_rows, x has the active rows. Returns x outside training.
Variable drop(const Variable& x,
              double rate,
              const ForwardContext& pass,
              const std::optional<ShardRange>& part = {});
// Returns x + drop(change, rate, pass), outside split regions.
Variable dropout_add(const Variable& x,
                     const Variable& change,
                     double rate,
                     const ForwardContext& pass);

// y = W2 drop(activation(W1 x + b1)) + b2, or gated: y = W2 drop(activation(W1 x + b1) (W3 x + b3))
// + b2 (Shazeer 2020). The hidden layer is split over tensor ranks. Linear layers: "in", "out" and,
// if gated, "up". With pass.active_rows, other rows of y are zeros.
class FeedForward {
 public:
  struct Options {
    std::int64_t width = 0;
    std::int64_t hidden = 0;
    Activation activation = Activation::relu;
    double dropout = 0;  // on the hidden layer
    std::optional<Initializer> initial = {};
    std::optional<Initializer> initial_out = {};  // of W2. None: `initial`.
    // Number of row chunks, processed one after another. The backward pass recomputes the hidden
    // layer of each.
    std::int64_t chunks = 1;
    bool gated = false;
    bool bias = true;
  };
  FeedForward(const Scope& scope, const Options& options);
  Variable operator()(const Variable& x, const ForwardContext& pass) const;

 private:
  Variable of_all(const Variable& x, const ForwardContext& pass) const;
  // Returns this rank's partial output. x: rows inside the region, of the positions in pass.time.
  // `unread`: compute only the gradient, not the value.
  Variable share(const Variable& x, const ForwardContext& pass, bool unread = false) const;
  Variable adapted_share(const Variable& x, const ForwardContext& pass, const Hidden& hidden) const;

  TensorParallelRegion region_;
  ShardRange hidden_;
  Activation activation_;
  double dropout_;
  std::int64_t chunks_;
  Linear in_;
  std::optional<Linear> up_;  // only if gated
  Linear out_;
};

// Query-key norm of each head (Henry et al. 2020; Dehghani et al. 2023).

// Parameters: "weight" [dim] and, for layer norm, "bias" [dim], shared by the heads. Value type.
class QKNorm {
 public:
  // Throws Failure for a power norm, whose averages require the features of a stream.
  QKNorm(const Scope& scope, std::int64_t dim, const NormOptions& form);
  // x: [batch, time, heads, dim].
  Variable operator()(const Variable& x) const {
    return bias_ ? layer_norm(x, gain_(), bias_->variable, epsilon_)
                 : rms_norm(x, gain_(), epsilon_);
  }

 private:
  double epsilon_;
  Gain gain_;
  Weight bias_;
};

}  // namespace longspan
