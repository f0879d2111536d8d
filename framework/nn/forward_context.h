// State that is passed down the model along with the activations of one forward pass.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/autograd/variable.h"
#include "framework/core/device.h"
#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

// Subset of the positions that a layer must compute because later layers read its output there.
struct ActiveRows {
  RowSubset rows;  // of an activation [batch, time, width] of this rank
  // [n] i64: index of each row among the rows [streams, time] of all ranks, for dropout.
  Tensor row_of_position;
};

// Returns the rows i of [batch, time] with takes[i] true, where `division` gives the `time`
// positions of each stream. first_stream: global index of the first stream. The number of rows is
// rounded up to a 64th of all rows, so that products have few shapes. Returns null if the subset
// omits less than a quarter of the rows, since the selected rows are stored in addition to the full
// activation.
std::shared_ptr<const ActiveRows> make_active_rows(const std::vector<bool>& takes,
                                                   std::int64_t time,
                                                   const SequenceShard& division,
                                                   std::int64_t first_stream,
                                                   const Device& device);

// Sums over the backward passes of a step, for each sublayer.
class ReconstructionError {
 public:
  // `stack`: path of the stack in the model, equal on all ranks.
  void add(std::uint64_t stack, std::int64_t sublayer, double squared_error, double squared_norm);

  // Returns the largest relative error of a sublayer: norm of the difference over norm of the
  // stream. Both norms are over all ranks, so the result does not depend on the sharding of streams
  // and time. Collective.
  double largest(const Communicator& ranks, const Device& device) const;

 private:
  std::map<std::pair<std::uint64_t, std::int64_t>, std::pair<double, double>> sums_;
};

class KVCache;            // attention/kv_cache.h
class AttentionRecorder;  // attention/attention_recorder.h
class LayerLossCollector;

// Caches the discrete choices of a forward pass (such as hash buckets) by their path in the model.
// A stack that recomputes layers in the backward pass needs it. Rebuilt activations may differ from
// the originals by rounding, which could change a choice.
class DecisionCache {
 public:
  // Returns the result of `make()` from the first call for this path.
  template <typename Make>
  Tensor at(std::uint64_t place, const Make& make) {
    Tensor& kept = kept_[place];
    if (!kept.defined()) kept = make();
    return kept;
  }
  bool empty() const { return kept_.empty(); }

 private:
  std::map<std::uint64_t, Tensor> kept_;
};

// Value type. Each layer passes its sublayers a child, so that each path draws its own random
// numbers.
struct ForwardContext {
  bool training = false;
  bool updates_statistics = true;  // false during training in a pass that only queries the model
  Random random{0};                // of this step
  std::int64_t step = 0;           // training step, counted from 0
  double gradient_scale = 1;       // loss scale: factor of the training gradients
  std::int64_t first_stream = 0;   // global index of batch row 0
  // Layout of the segment and of the Transformer-XL memory that this rank reads.
  SequenceShard time = {};
  SequenceShard memory = {};
  // Set for a layer that is recomputed in the backward pass.
  std::shared_ptr<DecisionCache> decisions = {};
  // If set, reversible stacks also store the true streams and measure the reconstruction error.
  std::shared_ptr<ReconstructionError> reconstruction = {};
  // If set, attention continues from this state of earlier positions. Decoding records no
  // gradients. All passes over one sequence need equal `random`, whose paths identify the layers.
  std::shared_ptr<KVCache> kv_cache = {};
  // If set, no later layer reads other rows of the output, and a layer may skip the work that only
  // these need.
  std::shared_ptr<const ActiveRows> active_rows = {};
  // If set, attention layers record the attention maps of their heads here.
  std::shared_ptr<AttentionRecorder> watch = {};
  // If set, layers report their auxiliary losses here.
  std::shared_ptr<LayerLossCollector> layer_losses = {};

  template <typename Name>
  ForwardContext child(const Name& name) const {
    ForwardContext result = *this;
    result.random = random.child(name);
    return result;
  }

  // Returns a context for an activation that has all rows.
  ForwardContext of_all_rows() const {
    ForwardContext result = *this;
    result.active_rows = {};
    return result;
  }

  // Caches a choice made from activations. Returns `make()` (a Tensor) in the forward pass, and the
  // cached tensor in a recomputation. One choice per path: each caller uses its own child.
  template <typename Make>
  Tensor decide(const Make& make) const {
    return decisions ? decisions->at(random.place(), make) : Tensor(make());
  }
};

// Auxiliary losses computed inside the layers of a stack, which may be recomputed in the backward
// pass. Their gradient is added where they are computed, and their value is collected by the pass.

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
