#include "framework/interop/model_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/quote.h"

namespace longspan {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t max_bytes = std::int64_t{1} << 20;
constexpr std::array<const char*, 7> special_token_keys = {"bos_token_id",
                                                           "eos_token_id",
                                                           "pad_token_id",
                                                           "sep_token_id",
                                                           "unk_token_id",
                                                           "cls_token_id",
                                                           "mask_token_id"};

// Returns the text with the largest number in place of Infinity, which Python writes though JSON
// has none ("time_step_limit" of Mamba-2).
std::string without_infinity(const std::string& text) {
  constexpr std::string_view word = "Infinity";
  std::string result;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!in_string && text.compare(i, word.size(), word) == 0) {
      result += "1.7976931348623157e308";
      i += word.size() - 1;
      continue;
    }
    if (in_string && text[i] == '\\' && i + 1 < text.size())
      result += text[i++];
    else if (text[i] == '"')
      in_string = !in_string;
    result += text[i];
  }
  return result;
}

// Rejects deep nesting and duplicate keys, of which a parser would pick either value.
Json parse(const std::string& text, const std::string& place) {
  std::vector<std::set<std::string>> keys;
  const auto judge = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > max_json_depth)
      throw DataError("{}: values are nested more than {} deep", place, max_json_depth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(value.get_ref<const std::string&>()).second)
      throw DataError("{}: duplicate key {}", place, quote(value.get_ref<const std::string&>()));
    return true;
  };
  try {
    return Json::parse(without_infinity(text), judge);
  } catch (const Json::exception& error) {
    throw DataError("{}: invalid JSON: {}", place, truncated(error.what(), 200));
  }
}

std::string found_text(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return truncated(value.dump());
}

}  // namespace

ModelConfig::ModelConfig(const std::filesystem::path& path) : path_(path) {
  object_ = parse(InputFile(path.string()).text(max_bytes), place());
  if (!object_.is_object())
    throw DataError("{}: expected an object, found {}", place(), found_text(object_));
}

ModelConfig::ModelConfig(std::filesystem::path path, Json object, std::string inside)
    : path_(std::move(path)), object_(std::move(object)), inside_(std::move(inside)) {}

ModelConfig ModelConfig::section(const std::string& key) const {
  const Json& found = value(key);
  if (!found.is_object())
    throw_data_error(key, fmt::format("expected an object, found {}", found_text(found)));
  return {path_, found, inside_ + key + "."};
}

const Json& ModelConfig::value(const std::string& key) const {
  static const Json nothing;
  asked_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() ? nothing : *found;
}

void ModelConfig::throw_data_error(const std::string& key, const std::string& what) const {
  throw DataError("{}: \"{}{}\": {}", place(), inside_, key, what);
}

bool ModelConfig::is_present(const std::string& key) const {
  value(key);
  return object_.contains(key);
}

bool ModelConfig::has(const std::string& key) const { return !value(key).is_null(); }

std::string ModelConfig::text(const std::string& key) const {
  const Json& found = value(key);
  if (!found.is_string())
    throw_data_error(key,
                     fmt::format("expected a string, found {}",
                                 found.is_null() ? "nothing" : found_text(found)));
  return found.get<std::string>();
}

std::int64_t ModelConfig::integer(const std::string& key,
                                  std::int64_t least,
                                  std::int64_t most) const {
  const Json& found = value(key);
  const bool is_integer =
      found.is_number_unsigned() && found.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
  if (!is_integer || found.get<std::int64_t>() < least || found.get<std::int64_t>() > most)
    throw_data_error(key,
                     fmt::format("expected an integer from {} to {}, found {}",
                                 least,
                                 most,
                                 found.is_null() ? "nothing" : found_text(found)));
  return found.get<std::int64_t>();
}

double ModelConfig::number(const std::string& key,
                           double otherwise,
                           const NumberRange& range) const {
  const Json& found = value(key);
  if (found.is_null()) return otherwise;
  const double number = found.is_number() ? found.get<double>() : range.below;
  if (!(number >= range.least && number < range.below))
    throw_data_error(key, fmt::format("expected {}, found {}", range.text, found_text(found)));
  return number;
}

bool ModelConfig::flag(const std::string& key, bool otherwise) const {
  const Json& found = value(key);
  if (found.is_null()) return otherwise;
  if (!found.is_boolean())
    throw_data_error(key, fmt::format("expected true or false, found {}", found_text(found)));
  return found.get<bool>();
}

void ModelConfig::require_flag(const std::string& key,
                               bool wanted,
                               const std::string& because) const {
  if (flag(key, wanted) != wanted)
    throw_data_error(key, fmt::format("expected {}, found {} ({})", wanted, !wanted, because));
}

void ModelConfig::require_number(const std::string& key,
                                 double wanted,
                                 const std::string& because) const {
  if (const double found = number(key, wanted); found != wanted)
    throw_data_error(key, fmt::format("expected {}, found {} ({})", wanted, found, because));
}

bool ModelConfig::is_list(const std::string& key) const { return value(key).is_array(); }

const Json& ModelConfig::list(const std::string& key) const {
  static const Json nothing = Json::array();
  const Json& found = value(key);
  if (found.is_null()) return nothing;
  if (!found.is_array())
    throw_data_error(key, fmt::format("expected a list, found {}", found_text(found)));
  return found;
}

std::vector<std::string> ModelConfig::texts(const std::string& key) const {
  std::vector<std::string> texts;
  for (const Json& entry : list(key)) {
    if (!entry.is_string())
      throw_data_error(key,
                       fmt::format("expected strings in the list, found {}", found_text(entry)));
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

std::vector<double> ModelConfig::numbers(const std::string& key) const {
  std::vector<double> numbers;
  // As `transformers` 5 writes it.
  const Json infinity = {{"__float__", "Infinity"}};
  for (const Json& entry : list(key)) {
    if (entry == infinity) {
      numbers.push_back(std::numeric_limits<double>::max());
      continue;
    }
    if (!entry.is_number())
      throw_data_error(key,
                       fmt::format("expected numbers in the list, found {}", found_text(entry)));
    numbers.push_back(entry.get<double>());
  }
  return numbers;
}

nlohmann::ordered_json ModelConfig::special_tokens() const {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
  // A model of texts and images may name them for its texts.
  if (has("text_config")) tokens = section("text_config").special_tokens();
  const auto is_id = [](const Json& id) { return id.is_number_integer(); };
  for (const char* const key : special_token_keys) {
    if (!is_present(key)) continue;
    const Json& found = value(key);
    const bool are_ids = found.is_array() && std::ranges::all_of(found, is_id);
    if (!found.is_null() && !is_id(found) && !are_ids)
      throw_data_error(
          key, fmt::format("expected an id, a list of ids or null, found {}", found_text(found)));
    tokens[key] = found;
  }
  return tokens;
}

void ModelConfig::ignore_keys(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) asked_.emplace(key);
}

void ModelConfig::pass_over_common() const {
  // Provenance.
  ignore_keys({"model_type",
               "architectures",
               "transformers_version",
               "_name_or_path",
               "name_or_path",
               "_commit_hash",
               "tokenizer_class",
               "torchscript",
               "tf_legacy_loss",
               "internal_version",
               "xla_device",
               "_from_model_config",
               "_from_pipeline",
               "_auto_class",
               "language",
               "name",
               "model_name",
               "sentence_transformers",
               "sbert_ce_default_activation_function",
               "transformers.js_config",
               "unsloth_fixed",
               "unsloth_version",
               "vocab_size_or_config_json_file"});
  // Implementation settings. The dtype key has another name since version 5 of `transformers`.
  ignore_keys({"torch_dtype",
               "dtype",
               "use_bfloat16",
               "use_cache",
               "gradient_checkpointing",
               "chunk_size_feed_forward",
               "_attn_implementation",
               "attn_implementation",
               "_attn_implementation_autoset",
               "attn_implementation_autoset",
               "_attn_implementation_internal",
               "_flash_attn_2_enabled",
               "_experts_implementation",
               "experts_implementation",
               "base_model_tp_plan",
               "base_model_pp_plan",
               "model_parallel"});
  // Optional outputs, and labels.
  ignore_keys({"output_attentions",
               "output_hidden_states",
               "output_past",
               "keys_to_ignore_at_inference",
               "is_composition",
               "return_dict",
               "use_return_dict",
               "id2label",
               "label2id",
               "num_labels",
               "_num_labels",
               "problem_type",
               "finetuning_task",
               "task_specific_params"});
  // Generation settings.
  for (const char* const key : special_token_keys) ignore_keys({key});
  ignore_keys({"decoder_start_token_id",
               "eos_token_ids",
               "bos_token",
               "eos_token",
               "pad_token",
               "unk_token",
               "model_max_length",
               "prefix",
               "max_length",
               "min_length",
               "do_sample",
               "early_stopping",
               "num_beams",
               "num_beam_groups",
               "diversity_penalty",
               "temperature",
               "top_k",
               "top_p",
               "typical_p",
               "repetition_penalty",
               "length_penalty",
               "no_repeat_ngram_size",
               "encoder_no_repeat_ngram_size",
               "bad_words_ids",
               "num_return_sequences",
               "output_scores",
               "return_dict_in_generate",
               "forced_bos_token_id",
               "forced_eos_token_id",
               "remove_invalid_values",
               "exponential_decay_length_penalty",
               "suppress_tokens",
               "begin_suppress_tokens",
               "max_new_tokens",
               "min_new_tokens",
               "max_time",
               "min_p",
               "top_h",
               "epsilon_cutoff",
               "eta_cutoff",
               "penalty_alpha",
               "guidance_scale",
               "encoder_repetition_penalty",
               "force_words_ids",
               "forced_decoder_ids",
               "renormalize_logits",
               "sequence_bias",
               "stop_strings",
               "token_healing",
               "watermarking_config",
               "output_logits",
               "cache_implementation",
               "cache_config",
               "return_legacy_cache",
               "low_memory",
               "num_assistant_tokens",
               "num_assistant_tokens_schedule",
               "assistant_confidence_threshold",
               "prompt_lookup_num_tokens",
               "max_matching_ngram_size",
               "assistant_early_exit",
               "dola_layers",
               "trust_remote_code"});
}

void ModelConfig::require_decoder_alone() const {
  ignore_keys({"is_decoder"});
  require_flag("add_cross_attention", false, "model.family: decoder has no cross-attention");
  require_flag("is_encoder_decoder", false, "model.family: decoder has no encoder");
  require_flag("tie_encoder_decoder", false, "model.family: decoder has no encoder");
}

void ModelConfig::require_encoder_alone() const {
  require_flag("is_decoder", false, "model.family: encoder is not causal");
  require_flag("add_cross_attention", false, "model.family: encoder has no cross-attention");
  require_flag("is_encoder_decoder", false, "model.family: encoder has no decoder");
  require_flag("tie_encoder_decoder", false, "model.family: encoder has no decoder");
}

void ModelConfig::require_encoder_and_decoder() const {
  require_flag("is_encoder_decoder", true, "model.family: encoder_decoder has both");
  require_flag("is_decoder", false, "model.family: encoder_decoder has an encoder too");
  require_flag("add_cross_attention", false, "it applies to models without an encoder");
  require_flag("tie_encoder_decoder", false, "encoder and decoder have separate weights");
}

void ModelConfig::finish() const {
  for (const auto& [key, value] : object_.items()) {
    const bool is_empty_value = value.is_null() || (value.is_object() && value.empty());
    if (!asked_.contains(key) && !is_empty_value)
      throw DataError(
          "{}: unknown key {}, which may change what the model computes; remove it from the file "
          "if it has no effect",
          place(),
          quote(inside_ + key));
  }
}

}  // namespace longspan
