#include <fmt/format.h>

#include <algorithm>

#include "framework/core/quote.h"
#include "framework/interop/architecture.h"
#include "framework/interop/config_keys.h"
#include "framework/interop/label_names.h"

namespace longspan::bert {
namespace {

constexpr double usual_dropout = 0.1;

// Head on top of the backbone.
enum class Head : std::uint8_t { classes, tags, none };

struct BertKind {
  const char* model_type;
  const char* name;
  const char* model_class;  // prefix of "architectures"
  const char* prefix;
  bool after_padding = false;  // positions begin after row "pad_token_id"
  const char* class_layer;     // of a classification head
  const char* classes;         // output of a classification head
  const char* left_out;        // prefix of tensors of other heads
  const char* decoder;         // of the MLM head, tied to the embedding
};
constexpr BertKind kinds[] = {{.model_type = "bert",
                               .name = "BERT",
                               .model_class = "Bert",
                               .prefix = "bert.",
                               .class_layer = "bert.pooler.dense",
                               .classes = "classifier",
                               .left_out = "cls.",
                               .decoder = "cls.predictions.decoder.weight"},
                              {.model_type = "roberta",
                               .name = "RoBERTa",
                               .model_class = "Roberta",
                               .prefix = "roberta.",
                               .after_padding = true,
                               .class_layer = "classifier.dense",
                               .classes = "classifier.out_proj",
                               .left_out = "lm_head.",
                               .decoder = "lm_head.decoder.weight"}};

void remark_dropouts(const BertKind& kind,
                     Head head,
                     const ModelConfig& config,
                     ImportedConfig& meaning) {
  const double dropout = config.number("hidden_dropout_prob", usual_dropout, of_dropout);
  const double of_head = config.number("classifier_dropout", dropout, of_dropout);
  if (of_head != dropout)
    meaning.remarks.push_back(
        fmt::format("\"classifier_dropout\" is {}, but \"hidden_dropout_prob\" is {}: "
                    "model.dropout uses the latter for both",
                    of_head,
                    dropout));
  if (dropout == 0) return;
  const bool before = head == Head::classes && !kind.after_padding;
  meaning.remarks.push_back(
      fmt::format("in training, model.dropout also applies inside feed-forward layers{}; {} does "
                  "not apply it there",
                  before ? " and to the input of the pooler" : "",
                  kind.name));
}

void read_positions(const BertKind& kind, const ModelConfig& config, ModelSettings& settings) {
  if (config.has("position_embedding_type") && config.text("position_embedding_type") != "absolute")
    config.throw_data_error(
        "position_embedding_type",
        fmt::format("expected absolute, found {}", quote(config.text("position_embedding_type"))));
  std::int64_t first = 0;
  if (kind.after_padding)
    first = 1 + (config.has("pad_token_id") ? config.integer("pad_token_id", 0, 1 << 16) : 1);
  const std::int64_t rows = config.integer("max_position_embeddings", first + 2, 1 << 28);
  settings.emplace_back("model.position_embedding_type", "learned");
  settings.emplace_back("model.max_position_embeddings", fmt::format("{}", rows - first));
  settings.emplace_back("model.position_embedding_offset", fmt::format("{}", first));
  add_example_length(rows - first, settings);
}

ImportedConfig read(const BertKind& kind, Head head, const ModelConfig& config) {
  config.pass_over_common();
  config.require_encoder_alone();
  // Settings of the MLM head, and keys of older versions that are never read.
  config.ignore_keys({"tie_word_embeddings",
                      "directionality",
                      "gradient_checkpointing",
                      "pooler_fc_size",
                      "pooler_num_attention_heads",
                      "pooler_num_fc_layers",
                      "pooler_size_per_head",
                      "pooler_type"});
  ImportedConfig meaning = {.settings = read_encoder_keys(config, usual_dropout)};
  const ModelSettings own = {
      {"run.task", head == Head::tags ? "tagging" : "classification"},
      {"model.vocab_size",
       fmt::format("{}", config.integer("vocab_size", 1, std::int64_t{1} << 31))},
      {"model.norm.position", "post"},
      {"model.scale_embedding", "false"},
      {"model.layernorm_embedding", "true"},
      {"model.type_vocab_size", fmt::format("{}", config.integer("type_vocab_size", 1, 1 << 16))},
      {"model.add_pooling_layer", head == Head::tags ? "false" : "true"},
  };
  meaning.settings.insert(meaning.settings.end(), own.begin(), own.end());
  read_positions(kind, config, meaning.settings);
  remark_dropouts(kind, head, config, meaning);
  if (head != Head::none) read_label_names(config, meaning);
  config.finish();
  return meaning;
}

nlohmann::ordered_json write(const BertKind& kind, const ModelValues& values) {
  const std::int64_t first = values.integer("model.position_embedding_offset");
  nlohmann::ordered_json config = {
      {"model_type", kind.model_type},
      {"vocab_size", values.integer("model.vocab_size")},
      {"max_position_embeddings", values.integer_or("model.max_position_embeddings", 1) + first},
      {"position_embedding_type", "absolute"},
      {"type_vocab_size", values.integer("model.type_vocab_size")}};
  config.update(write_encoder_keys(values));
  if (kind.after_padding) config["pad_token_id"] = first - 1;
  return config;
}

std::vector<TensorPair> tensors(const BertKind& kind, Head head, const ModelValues& values) {
  const std::string body = kind.prefix;
  std::vector<TensorPair> pairs = {
      {body + "embeddings.word_embeddings.weight", {"embedding/weight"}},
      {body + "embeddings.position_embeddings.weight", {"positions/weight"}},
      {body + "embeddings.token_type_embeddings.weight", {"token_types/weight"}}};
  const auto add = [&](const std::string& there, const std::string& here, bool optional = false) {
    for (const std::string each : {"weight", "bias"})
      pairs.push_back({.hf_name = there + "." + each,
                       .longspan_names = {here + "/" + each},
                       .optional = optional});
  };
  add(body + "embeddings.LayerNorm", "embedding_norm");
  for (std::int64_t layer = 0; layer < values.integer("model.num_hidden_layers"); ++layer) {
    const std::string there = fmt::format("{}encoder.layer.{}.", body, layer);
    const std::string attention = fmt::format("layers/{}/attention/", layer);
    const std::string feed = fmt::format("layers/{}/feed_forward/", layer);
    for (const std::string each : {"query", "key", "value"})
      add(there + "attention.self." + each, attention + each);
    add(there + "attention.output.dense", attention + "out");
    add(there + "attention.output.LayerNorm", attention + "norm");
    add(there + "intermediate.dense", feed + "in");
    add(there + "output.dense", feed + "out");
    add(there + "output.LayerNorm", feed + "norm");
  }
  if (head == Head::none) add(body + "pooler.dense", "output/layer", true);
  if (head == Head::tags) add("classifier", "output");
  if (head != Head::classes) return pairs;
  add(kind.class_layer, "output/layer");
  add(kind.classes, "output");
  return pairs;
}

// Saved by older versions.
bool is_constant(std::string_view name) {
  return name == "embeddings.position_ids" || name == "embeddings.token_type_ids";
}

// Names of norm parameters in weights converted from TensorFlow.
std::string older_name(const std::string& name) {
  for (const auto& [now, before] :
       {std::pair("LayerNorm.weight", "LayerNorm.gamma"), {"LayerNorm.bias", "LayerNorm.beta"}})
    if (name.ends_with(now)) return name.substr(0, name.size() - std::string(now).size()) + before;
  return "";
}

// Older versions saved it even for models that do not use it.
bool is_of_pooler(std::string_view name) {
  return name.ends_with("pooler.dense.weight") || name.ends_with("pooler.dense.bias");
}

Architecture architecture(const BertKind& kind, Head head) {
  const std::string model_class = kind.model_class;
  Architecture made = {
      .model_type = kind.model_type,
      .name = kind.name,
      .family = "encoder",
      .prefix = kind.prefix,
      .read = [&kind, head](const ModelConfig& config) { return read(kind, head, config); },
      .write = [&kind](const ModelValues& values) { return write(kind, values); },
      .tensors = [&kind, head](const ModelValues& values) { return tensors(kind, head, values); },
      .is_constant = is_constant,
      .legacy_name = older_name,
      .is_headless = head == Head::none};
  switch (head) {
    case Head::classes:
      made.model_classes = {model_class + "ForSequenceClassification"};
      if (kind.after_padding) made.is_unsupported_tensor = is_of_pooler;
      made.resolve = label_settling(std::string(kind.classes) + ".weight");
      break;
    case Head::tags:
      made.model_classes = {model_class + "ForTokenClassification"};
      made.resolve = label_settling("classifier.weight");
      made.is_unsupported_tensor = is_of_pooler;
      break;
    case Head::none:
      made.model_classes = {model_class + "Model", model_class + "ForMaskedLM"};
      if (!kind.after_padding) made.model_classes.push_back(model_class + "ForPreTraining");
      made.is_unsupported_tensor = [&kind](std::string_view name) {
        return name.starts_with(kind.left_out);
      };
      made.copies = [&kind](const ModelValues&) {
        const std::string table = kind.prefix + std::string("embeddings.word_embeddings.weight");
        return std::vector<std::pair<std::string, std::string>>{{kind.decoder, table}};
      };
      break;
  }
  return made;
}

}  // namespace

std::vector<Architecture> architectures() {
  std::vector<Architecture> all;
  for (const BertKind& kind : kinds)
    for (const Head head : {Head::none, Head::classes, Head::tags})
      all.push_back(architecture(kind, head));
  return all;
}

}  // namespace longspan::bert
