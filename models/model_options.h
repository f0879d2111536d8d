// The keys of the section `model` that most families share.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/kernels/activation.h"
#include "framework/modeling/backbone.h"
#include "framework/nn/attention/attention.h"
#include "framework/nn/attention/attention_kinds.h"
#include "framework/nn/attention/softmax_options.h"
#include "framework/nn/gate.h"
#include "framework/nn/residual/reversible.h"
#include "framework/options/options.h"

namespace longspan {

// Of feed-forward layers; those from reglu on have a gate (Shazeer 2020).
enum class FeedForwardActivation : std::uint8_t {
  relu,
  gelu,
  gelu_tanh,
  silu,
  reglu,
  geglu,
  geglu_tanh,
  swiglu
};
inline bool is_gated(FeedForwardActivation activation) {
  return activation >= FeedForwardActivation::reglu;
}
// The function of the gate, or of the hidden features where there is none.
Activation nonlinearity(FeedForwardActivation activation);

// Whether the sublayers of a layer read one another, or all the same and are summed (GPT-J, Wang
// and Komatsuzaki 2021; PaLM, Chowdhery et al. 2022).
enum class SublayerOrder : std::uint8_t { serial, parallel };

// What the products of queries and keys are divided by.
enum class ScoreScale : std::uint8_t {
  head,  // the root of a head's features (Vaswani et al. 2017)
  none   // (Raffel et al. 2020)
};

// What logits are divided by.
enum class LogitScale : std::uint8_t {
  none,
  width  // the root of the width, as in T5 where the embedding's table is the output layer's
};

enum class ResidualKind : std::uint8_t { plain, reversible, gated };

// In tokens: what memories, positions and distances may be set to.
inline constexpr std::int64_t longest_sequence = std::int64_t{1} << 36;

// What a family reads: segments of a text, or examples, each of a length of its own.
enum class Sequences : std::uint8_t { segments, examples };

// What a family, or one of its stacks, is, beside its options.
struct FamilyTraits {
  bool memory = false;  // it remembers earlier segments
  bool causal = true;   // no position sees a later one
  Sequences sequences = Sequences::segments;
  bool has_cross_attention = false;     // its layers look at another sequence too, by softmax
  std::optional<ImageGrid> image = {};  // it predicts the pixels of such images
};

// Of a gated residual.
struct GateOptions {
  GateKind kind = GateKind::gru;
  std::optional<double> bias = {};  // 2 for gru, 1 for others
  bool biases = false;
  bool relu = true;
};

struct ModelOptions {
  std::optional<std::int64_t> vocabulary = {};  // the tokenizer's
  std::int64_t layers = 6;
  std::int64_t width = 512;
  std::int64_t heads = 8;
  std::optional<std::int64_t> head_width = {};  // width / heads
  std::optional<std::int64_t> key_heads = {};   // heads
  bool query_key_norm = false;
  bool attention_sinks = false;
  std::optional<double> score_cap = {};
  ScoreScale score_scale = ScoreScale::head;
  std::optional<double> logit_cap = {};
  LogitScale logit_scale = LogitScale::none;
  SublayerOrder sublayers = SublayerOrder::serial;
  // Projections of attention that add a bias.
  std::vector<std::string> attention_bias = {"query", "key", "value", "out"};
  std::optional<std::int64_t> feed_forward = {};  // 4 width; gated, 8/3 of it
  bool feed_forward_bias = true;
  FeedForwardActivation activation = FeedForwardActivation::relu;
  NormPosition norm = NormPosition::post;
  NormKind norm_kind = NormKind::layer;
  double norm_epsilon = 1e-5;
  PowerOptions power = {};              // of norms of kind power
  std::optional<bool> final_norm = {};  // with norms before the sublayers
  ResidualKind residual = ResidualKind::plain;
  StreamMerge reversible_output = StreamMerge::mean;
  GateOptions gate = {};
  double dropout = 0.1;
  double attention_dropout = 0;
  AttentionOptions attention = {};
  bool tied_embeddings = true;
  std::optional<double> initial_deviation = 0.02;  // none: as Glorot & Bengio 2010

  std::int64_t head_dim() const { return head_width.value_or(width / heads); }
  bool gated() const { return is_gated(activation); }
  // Gated there are three matrices in place of two: as many weights, in whole eights.
  std::int64_t hidden() const {
    return feed_forward.value_or(gated() ? (8 * width + 23) / 24 * 8 : 4 * width);
  }
  // Of what the stack gives to the final norm and the output layer.
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
  double products_scale() const { return score_scale == ScoreScale::none ? 1 : 0; }
  // What logits are multiplied with.
  double logits_factor() const {
    return logit_scale == LogitScale::width ? 1 / std::sqrt(static_cast<double>(width)) : 1;
  }
  NormOptions norm_form() const { return {norm_kind, power, norm_epsilon}; }
  bool has_final_norm() const { return final_norm.value_or(norm == NormPosition::pre); }
  AttentionBuildOptions attention_setting(const FamilyTraits& traits, std::int64_t segment) const {
    return {.layers = layers,
            .heads = heads,
            .dim = head_dim(),
            .width = width,
            .dropout = attention_dropout,
            .memory = traits.memory,
            .segment = segment,
            .causal = traits.causal,
            .examples = traits.sequences == Sequences::examples,
            .image = traits.image};
  }
  // Of matrices; none: Xavier.
  std::optional<Initializer> initial() const {
    if (!initial_deviation) return std::nullopt;
    return Initializer::normal(*initial_deviation);
  }
  // Of embeddings and position tables.
  Initializer table_initial() const {
    return Initializer::normal(
        initial_deviation.value_or(1 / std::sqrt(static_cast<double>(width))));
  }
};

void declare(OptionTable& table,
             ModelOptions& options,
             const PlannedBuildOptions& planned,
             const FamilyTraits& traits = {});

// What is wrong with the attention of a stack, given the sections beside `model`, as a sentence;
// empty where nothing is. It depends on these keys.
std::string attention_problem(const ModelOptions& options,
                              const ModelBuildOptions& setting,
                              const FamilyTraits& traits);
std::vector<std::string> attention_keys_beside(const FamilyTraits& traits);

// The keys model.attention.learned_sinks, model.attention.logit_softcapping and
// model.attention.scale_attn_weights; `declare` calls it.
void declare_scores(OptionTable& table, ModelOptions& options);
// The key model.final_logit_softcapping, of families whose readout is of words alone.
void declare_logit_cap(OptionTable& table, ModelOptions& options);

// The key model.scale_decoder_outputs, of families whose readout is of words.
void declare_logit_scale(OptionTable& table, ModelOptions& options);

// The first key that asks for another softmax than that of scaled products, without its section;
// nothing where none does.
const char* softmax_form_key(const ModelOptions& options);
// What keeps sinks, a cap and another scale of scores from the attention kinds, as a sentence;
// empty where nothing does.
std::string softmax_form_problem(const ModelOptions& options);

// What keeps the two from going together, as a sentence; empty where nothing does.
std::string recompute_problem(const ModelOptions& options, const MemoryOptions& memory);
std::string reconstruction_problem(const ModelOptions& options, const MemoryOptions& memory);

// The ids of the model: at least those of the tokenizer, `tokenizer_ids`. Throws ConfigurationError
// when model.vocab_size says fewer.
std::int64_t vocabulary_of(const ModelOptions& options, std::int64_t tokenizer_ids);

}  // namespace longspan
