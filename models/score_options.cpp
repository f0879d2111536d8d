// What becomes of the scores of attention and of the logits of words.
#include "models/model_options.h"

namespace longspan {

void declare_scores(OptionTable& table, ModelOptions& options) {
  table.add(
      "model.attention_sinks",
      options.attention_sinks,
      "a learned number for each head has a part of its softmax and gives no value, so that a "
      "head need not look at anything",
      fixes_weights());
  table.add("model.score_cap",
            options.score_cap,
            "attention scores s become c tanh(s / c) with this c (Gemma 2); none: they stay",
            more_than(0.0),
            fixes_weights());
  table.add("model.score_scale",
            options.score_scale,
            "what products of queries and keys are divided by: the root of a head's features "
            "(head), or nothing (none, T5), in cross-attention too",
            {{"head", ScoreScale::head}, {"none", ScoreScale::none}},
            fixes_weights());
}

void declare_logit_cap(OptionTable& table, ModelOptions& options) {
  table.add("model.logit_cap",
            options.logit_cap,
            "logits of words z become c tanh(z / c) with this c (Gemma 2); none: they stay",
            more_than(0.0),
            fixes_weights());
}

void declare_logit_scale(OptionTable& table, ModelOptions& options) {
  table.add(
      "model.logit_scale",
      options.logit_scale,
      "what logits of words are divided by: nothing (none), or with model.tied_embeddings the "
      "root of model.width (width, the first T5)",
      {{"none", LogitScale::none}, {"width", LogitScale::width}},
      fixes_weights());
  table.check({"model.logit_scale", "model.tied_embeddings"}, [&options]() -> std::string {
    if (options.logit_scale == LogitScale::none || options.tied_embeddings) return "";
    return "model.logit_scale is width with model.tied_embeddings: false, whose output layer has a "
           "table of its own; set model.logit_scale to none";
  });
}

const char* softmax_form_key(const ModelOptions& options) {
  if (options.attention_sinks) return "attention_sinks";
  if (options.score_cap) return "score_cap";
  return options.score_scale == ScoreScale::head ? nullptr : "score_scale";
}

std::string softmax_form_problem(const ModelOptions& options) {
  const char* const key = softmax_form_key(options);
  if (key == nullptr) return "";
  for (std::int64_t layer = 0; layer < options.layers; ++layer)
    if (const MechanismKind* const own = mechanism_kind(options.attention, layer))
      return fmt::format(
          "model.{} is set with {} in model.attention, which has no such softmax; causal, local "
          "and the other kinds that are a mask can",
          key,
          own->name);
  return "";
}

}  // namespace longspan
