// What the families share: stacks of attention and feed-forward layers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/modeling/backbone.h"
#include "framework/nn/attention/additive_attention.h"
#include "framework/nn/attention/cross_attention.h"
#include "framework/nn/residual/residual.h"
#include "models/recurrence.h"

namespace longspan {

// Makes the mechanism of a layer in the scope of its attention.
using AttentionOpFactory =
    std::function<std::unique_ptr<AttentionOp>(const Scope& attention, std::int64_t layer)>;

// What a decoder's layers look at.
struct CrossAttentionOptions {
  CrossAttentionMapping wiring = CrossAttentionMapping::last;
  CrossAttentionScoreOptions scores = {};
  std::int64_t encoder_layers = 1;
  std::int64_t encoder_width = 0;  // of the encoder's outputs
};

struct StackOptions {
  ModelOptions common;
  bool attention_bias = true;
  std::optional<Initializer> initial_out = {};  // of the matrices that write to the stream
  MemoryOptions memory = {};
  Initializer initial_gain = {.mean = 1};  // of the norms
  std::optional<CrossAttentionOptions> cross = {};
  // Layers that run several times, with positions that each step adds.
  std::optional<RecurrenceOptions> recurrence = {};
  PositionOptions positions = {};
  std::optional<Rotary> rotary = {};  // of attention to the own sequence
};

// `layers` layers named "layers/0", "layers/1", ... of an "attention", with `cross` a
// "cross_attention", and a "feed_forward" sublayer. Throws ConfigurationError with wiring_problem.
std::vector<Layer> make_layers(const Scope& scope,
                               const StackOptions& options,
                               const AttentionOpFactory& mechanism);
// Throws ConfigurationError with recompute_problem or reconstruction_problem.
std::unique_ptr<Residual> make_residual(const ModelOptions& options,
                                        const MemoryOptions& memory = {});

// The positions that this rank holds of the pass's time, behind those of kept keys.
Ranges positions_of(const ForwardContext& pass);
// The position behind the last one, over all ranks.
std::int64_t end_of(const ForwardContext& pass);

// Behind a stack with these options, its readout's table not shared and without a bias.
OutputHeadSpec output_head_spec(const ModelOptions& options);

// Such layers, the way they are run, and the norm on top where the options have one ("final_norm").
class Stack {
 public:
  Stack(const Scope& scope, const StackOptions& options, const AttentionOpFactory& mechanism);
  // The same, and with `recurrence` its weights in the scope (models/recurrence.h).
  Stack(const Scope& scope,
        const StackOptions& options,
        const AttentionOpFactory& mechanism,
        const ModelBuildOptions& setting);
  // x: [batch, time, width]; pass.time: the division of its positions.
  Variable operator()(const Variable& x,
                      const StackInputs& reads,
                      const ForwardContext& pass,
                      const LayerRecorder& watch = {},
                      const GivePondered& give = {}) const;
  // As an encoder, whose positions all see each other: what the layers of a decoder look at, with
  // this wiring, in its `StackInputs::sides`. x: the input, of a length and a division of time that
  // `source` says; its rows may be undefined. Each output is normed as the last one is.
  std::vector<EncoderOutput> encode(const Variable& x,
                                    const EncoderOutput& source,
                                    CrossAttentionMapping wiring,
                                    ForwardContext pass,
                                    const GivePondered& give = {}) const;
  // The longest sequence that signals of each step know; 0: any.
  std::int64_t longest() const { return recurrence_ ? recurrence_->longest() : 0; }

 private:
  Variable normed(const Variable& y, const ForwardContext& pass, const Tensor& length) const;
  Variable run(const Variable& x,
               const StackInputs& reads,
               const ForwardContext& pass,
               const LayerRecorder& watch,
               const GivePondered& give) const;

  std::vector<Layer> layers_;
  std::unique_ptr<Residual> residual_;
  std::optional<Norm> final_norm_;
  std::optional<Recurrence> recurrence_;
};

}  // namespace longspan
