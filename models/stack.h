// Stacks of attention and feed-forward layers, which the families share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "framework/modeling/backbone.h"
#include "framework/nn/attention/additive_attention.h"
#include "framework/nn/attention/cross_attention.h"
#include "framework/nn/attention/token_mixer.h"
#include "framework/nn/residual/residual.h"
#include "models/recurrence.h"

namespace longspan {

// Creates a layer's attention, or what replaces it, in that attention's scope.
using AttentionOrMixer = std::variant<std::unique_ptr<AttentionOp>, std::unique_ptr<TokenMixer>>;
using AttentionOpFactory =
    std::function<AttentionOrMixer(const Scope& attention, std::int64_t layer)>;

// Cross-attention of a decoder's layers.
struct CrossAttentionOptions {
  CrossAttentionMapping wiring = CrossAttentionMapping::last;
  CrossAttentionScoreOptions scores = {};
  std::int64_t encoder_layers = 1;
  std::int64_t encoder_width = 0;  // of the encoder's outputs
};

struct StackOptions {
  ModelOptions common;
  bool attention_bias = true;
  std::optional<Initializer> initial_out = {};  // of matrices whose output is added to the residual
                                                // stream
  MemoryOptions memory = {};
  Initializer initial_gain = {.mean = 1};  // of the norms
  std::optional<CrossAttentionOptions> cross = {};
  // Layers that run several times, with positions added at each step, and their transition.
  std::optional<RecurrenceOptions> recurrence = {};
  PositionOptions positions = {};
  std::optional<Rotary> rotary = {};  // of self-attention
};

// Creates `layers` layers "layers/0", "layers/1", ... with "attention", "cross_attention" (with
// `cross`) and "feed_forward" sublayers. Throws ConfigurationError with validate_wiring.
std::vector<Layer> make_layers(const Scope& scope,
                               const StackOptions& options,
                               const AttentionOpFactory& mechanism);
// Throws ConfigurationError with validate_recompute or validate_reconstruction.
std::unique_ptr<Residual> make_residual(const ModelOptions& options,
                                        const MemoryOptions& memory = {});

// Returns the share of the sequence that the pass reads: less than 1 for a chunk.
double sequence_share(const ForwardContext& pass);

// Returns this rank's positions in the pass, after those in the KV cache.
Ranges positions_of(const ForwardContext& pass);
// Returns the end of the positions, over all ranks.
std::int64_t end_of(const ForwardContext& pass);

// Returns the head specification of a stack with these options, untied and without a bias.
OutputHeadSpec output_head_spec(const ModelOptions& options);

// A stack of layers with their residual connections and an optional final norm ("final_norm").
class Stack {
 public:
  Stack(const Scope& scope, const StackOptions& options, const AttentionOpFactory& mechanism);
  // As above; with `recurrence` its weights are in the scope (models/recurrence.h).
  Stack(const Scope& scope,
        const StackOptions& options,
        const AttentionOpFactory& mechanism,
        const ModelBuildOptions& setting);
  // x: [batch, time, width]; pass.time: the sharding of its positions.
  Variable operator()(const Variable& x,
                      const StackInputs& reads,
                      const ForwardContext& pass,
                      const LayerRecorder& watch = {},
                      const GivePondered& give = {}) const;
  // Runs the stack as a bidirectional encoder. Returns the outputs that a decoder with this mapping
  // attends to (StackInputs::encoder_outputs). x: the input, with the length and time sharding of
  // `source`, whose rows may be undefined. Each output has the norm of the last one.
  std::vector<EncoderOutput> encode(const Variable& x,
                                    const EncoderOutput& source,
                                    CrossAttentionMapping wiring,
                                    ForwardContext pass,
                                    const GivePondered& give = {}) const;
  // The longest sequence that the step timing signals support; 0: unlimited.
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
