// What goes down the model with the activations in one forward pass.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "framework/nn/active_rows.h"
#include "framework/nn/reconstruction_error.h"
#include "framework/nn/sequence_shard.h"

namespace longspan {

class KVCache;             // attention/kv_cache.h
class AttentionRecorder;   // attention/attention_recorder.h
class LayerLossCollector;  // layer_losses.h

// The discrete choices of a forward pass (the buckets of a hash), by their place in the model. A
// stack that computes layers again in the backward pass keeps them: what it rebuilds may differ
// from the first time by rounding, and a choice made anew with it.
class DecisionCache {
 public:
  // What `make()` returned when this was first called for the place.
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

// A value. Each layer hands its sublayers a child, so that each place draws random numbers of its
// own.
struct ForwardContext {
  bool training = false;
  bool updates_statistics = true;  // in training: false in a pass that only asks the model first
  Random random{0};                // of this step
  std::int64_t step = 0;           // of training, counted from 0
  double gradient_scale = 1;       // what the gradients of training are multiplied with
  std::int64_t first_stream = 0;   // the global index of batch row 0
  // The positions of the segment and of the memory that this rank reads.
  SequenceShard time = {};
  SequenceShard memory = {};
  // Set by what computes a layer again in the backward pass, for that layer.
  std::shared_ptr<DecisionCache> decisions = {};
  // Where it is set, reversible stacks keep the true streams too and measure.
  std::shared_ptr<ReconstructionError> reconstruction = {};
  // Where it is set, attention reads on from the keys that are kept there, without a gradient. All
  // passes of one reading have the same `random`, by whose places layers find their own.
  std::shared_ptr<KVCache> kv_cache = {};
  // Where it is set, nobody reads what the layer gives at other rows than these: it may leave out
  // what only they need.
  std::shared_ptr<const ActiveRows> active_rows = {};
  // Where it is set, attention layers show it what their heads look at.
  std::shared_ptr<AttentionRecorder> watch = {};
  // Where it is set, layers tell it the losses that they make themselves.
  std::shared_ptr<LayerLossCollector> layer_losses = {};

  template <typename Name>
  ForwardContext child(const Name& name) const {
    ForwardContext result = *this;
    result.random = random.child(name);
    return result;
  }

  // The pass of an activation with all rows, whatever others take.
  ForwardContext of_all_rows() const {
    ForwardContext result = *this;
    result.active_rows = {};
    return result;
  }

  // A choice made from activations: `make()` (a Tensor) in the forward pass, and the same tensor
  // again in a recomputation. One choice a pass: each place that decides takes a child of its own.
  template <typename Make>
  Tensor decide(const Make& make) const {
    return decisions ? decisions->at(random.place(), make) : Tensor(make());
  }
};

}  // namespace longspan
