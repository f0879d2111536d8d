// The small layers: linear, layer norm, dropout, feed-forward.
#pragma once

#include <optional>
#include <string>

#include "framework/autograd/ops.h"
#include "framework/nn/forward_context.h"
#include "framework/nn/lora.h"
#include "framework/nn/parameters.h"
#include "framework/nn/power_statistics.h"
#include "framework/nn/region.h"

namespace longspan {

// How a linear layer is divided over tensor ranks (Shoeybi et al. 2019).
enum class ParallelMode : std::uint8_t {
  none,
  columns,  // each rank computes a part of the outputs; the input has entered the region
  rows,     // each rank holds a part of the inputs; the output has left the region
};

// y = x W^T + b. Parameters "weight" [out, in] and, if asked for, "bias" [out]. The bias of a row
// split is added once, after the sum over the ranks. A layer between hidden states has an adapter
// where the model's fine-tuning says so.
class Linear {
 public:
  struct Options {
    std::int64_t in = 0;
    std::int64_t out = 0;
    ParallelMode split = ParallelMode::none;
    bool bias = true;
    std::optional<Initializer> initial = {};  // Xavier where nothing is said
    bool hidden = true;                       // see Parameter::hidden
  };
  Linear(const Scope& scope, const Options& options);

  // x: [..., in (this rank's)]. Throws Failure that names the layer when the width is another. Not
  // for a row split. Nothing is dropped.
  Variable operator()(const Variable& x) const;
  // x: [batch, time, in (this rank's)] of the positions of pass.time, inside the region where the
  // layer is split, or of the rows that pass.taken took. The output of a row split has left the
  // region.
  Variable operator()(const Variable& x, const ForwardContext& pass) const;
  // The same of a row split in two steps: this rank's share of the output for each row, and the sum
  // of the shares.
  Variable share(const Variable& x, const ForwardContext& pass) const;
  Variable join(Variable&& shares, const SequenceShard& time) const;

  // For ops that do more than this product, of a layer without an adapter. The bias is undefined
  // where there is none or `join` adds it.
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

// What norms of a model are. A kind stands for itself.
struct NormOptions {
  NormKind kind = NormKind::layer;
  PowerOptions power = {};
  double epsilon = 1e-5;  // added to the mean square

  NormOptions(NormKind of = NormKind::layer, const PowerOptions& moving = {}, double added = 1e-5)
      : kind(of), power(moving), epsilon(added) {}
};

// Parameters "weight" [width] and, but for rms, "bias" [width]. A power norm has statistics, and
// follows the rows that are given with their pass.
class Norm {
 public:
  Norm(const Scope& scope,
       std::int64_t width,
       const NormOptions& form = {},
       const Initializer& gain = Initializer::constant(1));
  // In x's dtype or, for f32, in a narrower one. Of rows that were followed before, such as a
  // memory.
  Variable operator()(const Variable& x, std::optional<DType> dtype = {}) const;
  // Of x [batch, time, width], the positions of pass.time. length: [batch] i64, of the positions
  // that are no padding; undefined: all.
  Variable operator()(const Variable& x,
                      const ForwardContext& pass,
                      const Tensor& length,
                      std::optional<DType> dtype = {}) const;
  // The same, of rows that the norm reads elsewhere in the pass too, with the same decisions.
  Variable beside(const Variable& x,
                  const ForwardContext& pass,
                  const Tensor& length,
                  std::optional<DType> dtype = {}) const;
  // add_dropped(x, change, rate, pass) and the norm of it, which takes the change's place.
  ResidualNorm of_sum(const Variable& x,
                      Variable&& change,
                      double rate,
                      const ForwardContext& pass,
                      const Tensor& length = {}) const;

 private:
  double epsilon_;
  Weight weight_;
  Weight bias_;                                  // none of rms
  std::shared_ptr<PowerStatistics> statistics_;  // of power
};

// Dropout of an activation [batch, time, width]. Inside a split region `part` says which features
// this rank holds, and with pass.taken the rows of x are those that it took. Without training it is
// x itself.
Variable drop(const Variable& x,
              double rate,
              const ForwardContext& pass,
              const std::optional<ShardRange>& part = {});
// x + drop(change, rate, pass), outside of split regions.
Variable dropout_add(const Variable& x,
                     const Variable& change,
                     double rate,
                     const ForwardContext& pass);

// y = W2 drop(activation(W1 x + b1)) + b2, or gated W2 drop(activation(W1 x + b1) (W3 x + b3)) + b2
// (Shazeer 2020), the hidden layer split over tensor ranks. Linear layers "in", "out" and, gated,
// "up". With pass.taken the other rows of y are zeros.
class FeedForward {
 public:
  struct Options {
    std::int64_t width = 0;
    std::int64_t hidden = 0;
    Activation activation = Activation::relu;
    double dropout = 0;  // of the hidden layer
    std::optional<Initializer> initial = {};
    std::optional<Initializer> initial_out = {};  // of W2, where it starts otherwise
    // Pieces of the rows that are taken one after another; the hidden layer of each is computed
    // again in the backward pass.
    std::int64_t chunks = 1;
    bool gated = false;
    bool bias = true;
  };
  FeedForward(const Scope& scope, const Options& options);
  Variable operator()(const Variable& x, const ForwardContext& pass) const;

 private:
  Variable of_all(const Variable& x, const ForwardContext& pass) const;
  // This rank's share of the output. x: rows inside the region, of the positions that pass.time
  // gives. `unread`: only the gradient is wanted.
  Variable share(const Variable& x, const ForwardContext& pass, bool unread = false) const;
  Variable adapted_share(const Variable& x, const ForwardContext& pass, const Hidden& hidden) const;

  TensorParallelRegion region_;
  ShardRange hidden_;
  Activation activation_;
  double dropout_;
  std::int64_t chunks_;
  Linear in_;
  std::optional<Linear> up_;  // of a gated one
  Linear out_;
};

}  // namespace longspan
