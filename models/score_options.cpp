// Options of attention scores and of LM logits.
#include "models/model_options.h"

namespace longspan {

void declare_scores(OptionTable& table, ModelOptions& options) {
  table.add(
      "model.attention.learned_sinks",
      options.attention_sinks,
      "learned logit per head that takes part in the softmax and has no value, so that a head can "
      "attend to nothing",
      affects_weights());
  table.add("model.attention.logit_softcapping",
            options.score_cap,
            "soft cap c of the attention logits s: c tanh(s / c) (Gemma 2); none: no cap",
            more_than(0.0),
            affects_weights());
  table.add(
      "model.attention.scale_attn_weights",
      options.scale_attn_weights,
      "division of attention logits by sqrt(model.head_dim), also in cross-attention; false: no "
      "scaling (T5)",
      affects_weights());
}

void declare_logit_cap(OptionTable& table, ModelOptions& options) {
  table.add("model.final_logit_softcapping",
            options.logit_cap,
            "soft cap c of the output logits z: c tanh(z / c) (Gemma 2); none: no cap",
            more_than(0.0),
            affects_weights());
}

void declare_logit_scale(OptionTable& table, ModelOptions& options) {
  table.add("model.scale_decoder_outputs",
            options.scale_decoder_outputs,
            "division of the last hidden states by sqrt(model.hidden_size) before the output layer "
            "(first T5)",
            affects_weights(),
            needs(is("model.tie_word_embeddings", {"true"})));
}

const char* softmax_form_key(const ModelOptions& options) {
  if (options.attention_sinks) return "attention.learned_sinks";
  if (options.score_cap) return "attention.logit_softcapping";
  return options.scale_attn_weights ? nullptr : "attention.scale_attn_weights";
}

std::string validate_softmax_type(const ModelOptions& options) {
  const char* const key = softmax_form_key(options);
  if (key == nullptr) return "";
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    if (const AttentionKind* const own = attention_kind(options.attention, layer))
      return fmt::format(
          "model.{} does not support {} in model.attention.layer_types; use full, "
          "sliding_window or another masked type",
          key,
          own->name);
  return "";
}

}  // namespace longspan
