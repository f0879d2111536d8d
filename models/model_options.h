// Configuration keys of the section `model` that most families share.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/kernels/elementwise.h"
#include "framework/modeling/backbone.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_attention.h"
#include "framework/nn/gate.h"
#include "framework/nn/residual/reversible.h"
#include "framework/options/options.h"

namespace longspan {

// Activation of feed-forward layers; reglu and later values are gated (Shazeer 2020).
enum class FeedForwardActivation : std::uint8_t {
  relu,
  gelu,
  gelu_tanh,
  silu,
  relu2,
  reglu,
  geglu,
  geglu_tanh,
  swiglu
};
inline bool is_gated(FeedForwardActivation activation) {
  return activation >= FeedForwardActivation::reglu;
}
// Returns the activation of the gate, or of the hidden features without a gate.
Activation nonlinearity(FeedForwardActivation activation);

enum class ResidualKind : std::uint8_t { plain, reversible, gated };

// In tokens: upper limit of memory lengths, positions and relative positions.
inline constexpr std::int64_t max_sequence_length = std::int64_t{1} << 36;

// Input of a family: segments of a document, or examples of individual lengths.
enum class Sequences : std::uint8_t { segments, examples };
// Returns the key of the longest sequence.
inline std::string length_key(Sequences sequences) {
  return sequences == Sequences::segments ? "data.seq_length" : "data.max_length";
}

// Fixed traits of a family or of one of its stacks.
struct FamilyTraits {
  bool memory = false;  // has recurrent state of earlier segments
  bool causal = true;   // no position attends to a later one
  Sequences sequences = Sequences::segments;
  bool has_cross_attention = false;     // its layers also have softmax cross-attention
  bool repeats_layers = false;          // depth recurrence
  std::optional<ImageGrid> image = {};  // it predicts the pixels of images of this shape
};

// Options of gated residuals.
struct GateOptions {
  GateKind kind = GateKind::gru;
  std::optional<double> bias = {};  // default: 2 for gru, 1 for others
  bool biases = false;
  bool relu = true;
};

struct ModelOptions {
  std::optional<std::int64_t> vocabulary = {};  // default: the tokenizer's
  std::int64_t layers = 6;
  std::int64_t width = 512;
  std::int64_t heads = 8;
  std::optional<std::int64_t> head_width = {};  // default: width / heads
  std::optional<std::int64_t> key_heads = {};   // default: heads
  bool query_key_norm = false;
  bool output_gate = false;  // of self-attention
  bool attention_sinks = false;
  std::optional<double> score_cap = {};
  // Divide attention scores by sqrt(head dimension); T5 does not (Raffel et al. 2020).
  bool scale_attn_weights = true;
  std::optional<double> logit_cap = {};
  // Divide the hidden states before the output layer by sqrt(width), as T5 with tied embeddings.
  bool scale_decoder_outputs = false;
  // Run the sublayers of a layer in parallel on one input and sum them (GPT-J, Wang and Komatsuzaki
  // 2021; PaLM, Chowdhery et al. 2022).
  bool use_parallel_residual = false;
  // Attention projections that have a bias.
  std::vector<std::string> attention_bias = {"query", "key", "value", "out"};
  std::optional<std::int64_t> feed_forward = {};  // default: 4 width; with a gate, 8/3 of the width
  bool feed_forward_bias = true;
  FeedForwardActivation activation = FeedForwardActivation::relu;
  NormPosition norm = NormPosition::post;
  NormKind norm_kind = NormKind::layer;
  double norm_epsilon = 1e-5;
  bool zero_centered_gains = false;
  PowerOptions power = {};              // of norms of kind power
  std::optional<bool> final_norm = {};  // of pre-norm stacks
  ResidualKind residual = ResidualKind::plain;
  StreamMerge reversible_output = StreamMerge::mean;
  GateOptions gate = {};
  double dropout = 0.1;
  double attention_dropout = 0;
  AttentionOptions attention = {};
  bool tied_embeddings = true;
  std::optional<double> initial_deviation = 0.02;  // none: Xavier initialization (Glorot & Bengio
                                                   // 2010)

  std::int64_t head_dim() const { return head_width.value_or(width / heads); }
  bool gated() const { return is_gated(activation); }
  // Gated layers have three matrices instead of two; the size is rounded up to a multiple of 8.
  std::int64_t hidden() const {
    return feed_forward.value_or(gated() ? (8 * width + 23) / 24 * 8 : 4 * width);
  }
  // Mamba-2 has only mixing layers.
  bool has_feed_forward() const { return feed_forward != 0; }
  // Width of the stack's output, before the final norm and the output head.
  std::int64_t output_width() const {
    const bool both =
        residual == ResidualKind::reversible && reversible_output == StreamMerge::concatenate;
    return both ? 2 * width : width;
  }
  ProjectionBiases projection_biases() const;
  SoftmaxOptions softmax_form(const Scope& attention_scope) const {
    SoftmaxOptions form =
        longspan::softmax_form(attention_scope, heads, attention_sinks, score_cap);
    form.scale = products_scale();
    return form;
  }
  // As SoftmaxOptions::scale.
  double products_scale() const { return scale_attn_weights ? 0 : 1; }
  // Returns the factor of logits.
  double logits_factor() const {
    return scale_decoder_outputs ? 1 / std::sqrt(static_cast<double>(width)) : 1;
  }
  NormOptions norm_form() const {
    NormOptions form = {norm_kind, power, norm_epsilon};
    form.zero_centered = zero_centered_gains;
    return form;
  }
  bool has_final_norm() const { return final_norm.value_or(norm == NormPosition::pre); }
  AttentionBuildOptions attention_setting(const FamilyTraits& traits, std::int64_t segment) const {
    return {
        .layers = layers,
        .heads = heads,
        .dim = head_dim(),
        .width = width,
        .dropout = attention_dropout,
        .value_bias = projection_biases().value,
        .norm_epsilon = norm_epsilon,
        .memory = traits.memory,
        .segment = segment,
        .causal = traits.causal,
        .examples = traits.sequences == Sequences::examples,
        .value_residual = !traits.has_cross_attention && !traits.repeats_layers && !traits.image,
        .image = traits.image};
  }
  // Initializer of matrices; none: Xavier.
  std::optional<Initializer> initial() const {
    if (!initial_deviation) return std::nullopt;
    return Initializer::normal(*initial_deviation);
  }
  // Initializer of embeddings and position tables.
  Initializer table_initial() const {
    return Initializer::normal(
        initial_deviation.value_or(1 / std::sqrt(static_cast<double>(width))));
  }
};

void declare(OptionTable& table,
             ModelOptions& options,
             const PlannedBuildOptions& planned,
             const FamilyTraits& traits = {});

// Returns why the attention of a stack is unsupported, given the other sections; empty if it is
// supported. It reads these keys.
std::string validate_attention(const ModelOptions& options,
                               const ModelBuildOptions& setting,
                               const FamilyTraits& traits);
std::vector<std::string> attention_keys_and_common(const OptionTable& table,
                                                   const FamilyTraits& traits);

// Declares the keys model.attention.learned_sinks, model.attention.logit_softcapping and
// model.attention.scale_attn_weights. `declare` calls it.
void declare_scores(OptionTable& table, ModelOptions& options);
// Declares the key model.final_logit_softcapping, for families with an LM head only.
void declare_logit_cap(OptionTable& table, ModelOptions& options);

// Declares the key model.scale_decoder_outputs, for families with an LM head.
void declare_logit_scale(OptionTable& table, ModelOptions& options);

// Returns the first key, without its section, that changes the softmax from scaled dot products;
// nullptr if none does.
const char* softmax_form_key(const ModelOptions& options);
// Returns why the attention types do not support sinks, softcapping or another score scale; empty
// if they do.
std::string validate_softmax_type(const ModelOptions& options);

// Returns why the two cannot be combined; empty if they can.
std::string validate_recompute(const ModelOptions& options, const MemoryOptions& memory);
// `segment`: length of the sequences; 0: unknown.
std::string validate_bptt_chunks(const ModelOptions& options,
                                 const MemoryOptions& memory,
                                 std::int64_t segment,
                                 Sequences sequences = Sequences::segments);
// Returns the first attention type that requires whole sequences, as "key: value"; empty if none
// does.
std::string whole_sequence_type(const AttentionOptions& options);
// Returns why the stack requires feed-forward layers, if it has none. Otherwise empty.
std::string validate_feed_forward(const ModelOptions& options);
std::string validate_reconstruction(const ModelOptions& options, const MemoryOptions& memory);

// Returns the model's vocabulary size: at least `tokenizer_ids`. Throws ConfigurationError if
// model.vocab_size is smaller.
std::int64_t vocabulary_of(const ModelOptions& options, std::int64_t tokenizer_ids);

}  // namespace longspan
