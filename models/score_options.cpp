// What becomes of the scores of attention and of the logits of words.
#include "models/model_options.h"

namespace longspan {

void declare_scores(OptionTable& table, ModelOptions& options) {
  table.add(
      "model.attention.learned_sinks",
      options.attention_sinks,
      "a learned number for each head has a part of its softmax and gives no value, so that a "
      "head need not look at anything",
      affects_weights());
  table.add("model.attention.logit_softcapping",
            options.score_cap,
            "attention scores s become c tanh(s / c) with this c (Gemma 2); none: they stay",
            more_than(0.0),
            affects_weights());
  table.add(
      "model.attention.scale_attn_weights",
      options.score_scale,
      "divides products of queries and keys by the root of model.head_dim, in cross-attention "
      "too; false: T5",
      {{"true", ScoreScale::head}, {"false", ScoreScale::none}},
      affects_weights());
}

void declare_logit_cap(OptionTable& table, ModelOptions& options) {
  table.add("model.final_logit_softcapping",
            options.logit_cap,
            "logits of words z become c tanh(z / c) with this c (Gemma 2); none: they stay",
            more_than(0.0),
            affects_weights());
}

void declare_logit_scale(OptionTable& table, ModelOptions& options) {
  table.add("model.scale_decoder_outputs",
            options.logit_scale,
            "divides the last states by the root of model.hidden_size before lm_head, with "
            "model.tie_word_embeddings (the first T5)",
            {{"false", LogitScale::none}, {"true", LogitScale::width}},
            affects_weights());
  table.check({"model.scale_decoder_outputs", "model.tie_word_embeddings"},
              [&options]() -> std::string {
                if (options.logit_scale == LogitScale::none || options.tied_embeddings) return "";
                return "model.scale_decoder_outputs is true with model.tie_word_embeddings: false, "
                       "whose output "
                       "layer has a table of its own; set model.scale_decoder_outputs to false";
              });
}

const char* softmax_form_key(const ModelOptions& options) {
  if (options.attention_sinks) return "attention.learned_sinks";
  if (options.score_cap) return "attention.logit_softcapping";
  return options.score_scale == ScoreScale::head ? nullptr : "attention.scale_attn_weights";
}

std::string softmax_form_problem(const ModelOptions& options) {
  const char* const key = softmax_form_key(options);
  if (key == nullptr) return "";
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    if (const AttentionKind* const own = attention_kind(options.attention, layer))
      return fmt::format(
          "model.{} is set with {} in model.attention.layer_types, which has no such softmax; "
          "full, "
          "sliding_window "
          "and the other kinds that are a mask can",
          key,
          own->name);
  return "";
}

}  // namespace longspan
