#include "launch/cli/exported_tokenizer.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoints/files.h"
#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/json_bounds.h"
#include "framework/data/tokenization/package_tokenizer.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t max_bytes = std::int64_t{16} << 20;
constexpr const char* file_prefix = "import/tokenizer/";  // of scalars
constexpr const char* config_name = "tokenizer_config.json";
constexpr const char* special_tokens_name = "special_tokens_map.json";
constexpr const char* template_name = "chat_template.jinja";
constexpr std::array<const char*, 4> file_names = {
    config_name, special_tokens_name, template_name, "chat_template.json"};

// For model type qwen2 transformers 5 (5.24) ignores the class in tokenizer_config.json and uses
// Qwen's own, which splits digits. It respects the class only if the file names custom code. That
// code selects the same class, so it is used whether or not such code is trusted.
constexpr const char* code_name = "tokenization_verbatim";
constexpr const char* code_of_class =
    R"(# The tokenizer of tokenizer.json as it is: AutoTokenizer would read that of Qwen 2 for this model.
from transformers import PreTrainedTokenizerFast

class VerbatimTokenizer(PreTrainedTokenizerFast):
    pass
)";

struct TokenRole {
  const char* role;
  std::array<const char*, 3> names;  // usual names of the token
};
constexpr std::array<TokenRole, 5> roles = {{{"unk_token", {"<unk>", "[UNK]", "<|unk|>"}},
                                             {"sep_token", {"[SEP]", "", ""}},
                                             {"pad_token", {"<pad>", "[PAD]", "<|pad|>"}},
                                             {"cls_token", {"[CLS]", "", ""}},
                                             {"mask_token", {"<mask>", "[MASK]", "<|mask|>"}}}};

// Returns the ID of the special token with one of these names; -1 if there is none.
std::int64_t special_id(const JsonTokenizer& model, const TokenRole& role) {
  for (const char* const name : role.names)
    if (const std::int64_t id = model.id_of(name); model.is_special(id)) return id;
  return -1;
}

// Only special tokens: any other token named here would be removed from all texts.
Json special_tokens(const JsonTokenizer& model, const DocumentTokens& tokens) {
  Json found = Json::object();
  const auto set = [&](const char* role, std::int64_t id) {
    if (model.is_special(id) && !found.contains(role)) found[role] = model.token(id);
  };
  if (tokens.begin) set("bos_token", *tokens.begin);
  if (!tokens.ends.empty()) set("eos_token", tokens.ends.front());
  for (const TokenRole& role : roles) set(role.role, special_id(model, role));
  const bool frames = model.before().size() == 1 && model.after().size() == 1;
  if (frames) {
    set("cls_token", model.before().front());
    set("sep_token", model.after().front());
  }
  return found;
}

// Adds names for the IDs after the tokenizer's, which begin and end the texts of pairs.
std::string with_names(const std::string& json, const DocumentTokens& tokens) {
  const JsonTokenizer model(json, "tokenizer.json");
  std::map<std::int64_t, std::array<const char*, 2>> added;
  for (const std::int64_t end : tokens.ends)
    if (end >= model.vocabulary()) added[end] = {"</s>", "<|end|>"};
  if (tokens.begin && *tokens.begin >= model.vocabulary())
    added[*tokens.begin] = {"<s>", "<|begin|>"};
  if (added.empty()) return json;
  Json file = Json::parse(json);
  for (const auto& [id, names] : added)
    file["added_tokens"].push_back({{"id", id},
                                    {"content", model.id_of(names[0]) < 0 ? names[0] : names[1]},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  return file.dump() + "\n";
}

Json config_of(const TokenizerExport& from, const Json& special) {
  // For this class name no version of the package modifies the behavior of tokenizer.json.
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (from.positions > 0) config["model_max_length"] = from.positions;
  Json inputs = {"input_ids"};
  if (from.model_type == "bert") inputs.push_back("token_type_ids");
  inputs.push_back("attention_mask");
  config["model_input_names"] = std::move(inputs);
  config["clean_up_tokenization_spaces"] = false;
  config.update(special);
  if (from.model_type == "qwen2")
    config["auto_map"] = {
        {"AutoTokenizer", Json::array({nullptr, fmt::format("{}.VerbatimTokenizer", code_name)})}};
  return config;
}

std::string text_of(const Json& json) { return json.dump(2) + "\n"; }

std::string imported(const Scalars& scalars, const char* name) {
  return scalars.get_or<std::string>(file_prefix + std::string(name), "");
}

bool is_json_object(const std::string& text) {
  try {
    check_json_limits(text, "", false);
    return nlohmann::json::parse(text, nullptr, false).is_object();
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> copy_tokenizer_files(const fs::path& folder, Scalars& scalars) {
  std::vector<std::string> remarks;
  const auto keep = [&](const char* name, const std::string& scalar) {
    const fs::path path = folder / name;
    std::error_code unused;
    if (!fs::is_regular_file(path, unused) || scalars.has(scalar)) return;
    const InputFile file(path.string());
    const bool fits = file.size() <= max_bytes;
    const std::string text = fits ? file.text(max_bytes) : "";
    const bool is_json = path.extension() == ".json";
    if (fits && (is_json ? is_json_object(text) : valid_utf8_bytes(text) == text.size()))
      scalars.set(scalar, text);
    else
      remarks.push_back(fmt::format("{}: not imported and not exported: {}",
                                    path.string(),
                                    !fits     ? fmt::format("expected at most {} bytes", max_bytes)
                                    : is_json ? "expected a JSON object"
                                              : "expected UTF-8"));
  };
  for (const char* const name : file_names) keep(name, file_prefix + std::string(name));
  keep(generation_config_name, generation_config_scalar);
  return remarks;
}

std::string write_tokenizer_files(const TokenizerExport& from, const fs::path& folder) {
  const std::optional<std::string> text = package_json(from.tokenizer);
  if (!text)
    return fmt::format("data.tokenizer.type: {} does not support export as tokenizer.json",
                       name_of(from.tokenizer.kind()));
  const std::string json = with_names(*text, from.tokens);
  write_text_file(folder / "tokenizer.json", json);
  const Json special = special_tokens(JsonTokenizer(json, "tokenizer.json"), from.tokens);
  std::string config = imported(from.scalars, config_name);
  std::string map = imported(from.scalars, special_tokens_name);
  // A folder without one has no information about special tokens.
  if (config.empty()) {
    const Json made = config_of(from, special);
    config = text_of(made);
    if (made.contains("auto_map"))
      write_text_file(folder / fmt::format("{}.py", code_name), code_of_class);
    if (map.empty()) map = text_of(special);
  }
  if (from.chat_template) {
    Json changed = Json::parse(config);
    changed["chat_template"] = *from.chat_template;  // read by versions before 4.43
    config = text_of(changed);
    write_text_file(folder / template_name, *from.chat_template);
  }
  write_text_file(folder / config_name, config);
  if (!map.empty()) write_text_file(folder / special_tokens_name, map);
  if (!from.chat_template)
    for (const char* const name : {template_name, "chat_template.json"})
      if (const std::string kept = imported(from.scalars, name); !kept.empty())
        write_text_file(folder / name, kept);
  return "";
}

std::optional<std::int64_t> padding_id(const Tokenizer& tokenizer) {
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  if (model == nullptr) return std::nullopt;
  const std::int64_t id = special_id(*model, roles[2]);
  return id < 0 ? std::nullopt : std::optional(id);
}

Json end_ids(const DocumentTokens& tokens) {
  if (tokens.ends.empty()) return nullptr;
  if (tokens.ends.size() == 1) return tokens.ends.front();
  return tokens.ends;
}

std::string generation_config_text(const Scalars& scalars,
                                   const DocumentTokens& tokens,
                                   std::optional<std::int64_t> padding) {
  const auto imported = scalars.get_or<std::string>(generation_config_scalar, "");
  Json config = Json::object();
  if (!imported.empty()) {
    config = Json::parse(imported, nullptr, false);
    if (!config.is_object()) config = Json::object();
    if (config.contains("eos_token_id") && config["eos_token_id"] == end_ids(tokens))
      return imported;
  }
  if (tokens.begin && !config.contains("bos_token_id")) config["bos_token_id"] = *tokens.begin;
  if (!tokens.ends.empty()) config["eos_token_id"] = end_ids(tokens);
  if (padding && !config.contains("pad_token_id")) config["pad_token_id"] = *padding;
  return text_of(config);
}

}  // namespace longspan
