#include "launch/cli/exported_tokenizer.h"

#include <algorithm>
#include <array>
#include <map>

#include "checkpoints/files.h"
#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/json_bounds.h"
#include "framework/core/quote.h"
#include "framework/data/tokenization/tokenizer_file.h"
#include "framework/interop/transfer.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
namespace {

// Returns a member of a JSON object that is an ID, or a list of IDs.
std::vector<std::int64_t> ids_at(const nlohmann::json& object, const char* key) {
  std::vector<std::int64_t> ids;
  if (!object.is_object() || !object.contains(key)) return ids;
  const nlohmann::json& value = object[key];
  for (const nlohmann::json& id : value.is_array() ? value : nlohmann::json::array({value}))
    if (id.is_number_integer()) ids.push_back(id.get<std::int64_t>());
  return ids;
}

// Returns the imported IDs, from generation_config.json before config.json.
std::vector<std::int64_t> imported_ids(const Scalars& scalars, const char* key) {
  for (const char* const name : {generation_config_scalar, special_tokens_scalar}) {
    const auto json =
        nlohmann::json::parse(scalars.get_or<std::string>(name, "{}"), nullptr, false);
    if (std::vector<std::int64_t> ids = ids_at(json, key); !ids.empty()) return ids;
  }
  return {};
}

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

void add_sentence_tokens(const TokenIds& ids,
                         const Tokenizer& tokenizer,
                         const std::string& place,
                         ModelSettings& settings) {
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  const auto add = [&](const char* key, const TokenIds::value_type& id) {
    const std::string name = model ? model->token(id.second) : fmt::format("{}", id.second);
    if (model && (name.empty() || model->id_of(name) != id.second))
      throw DataError("{}: {}: expected the id of a token of tokenizer.json, found {}",
                      place,
                      quote(id.first),
                      id.second);
    settings.emplace_back(key, yaml_word(name));
  };
  auto begin = ids.find("decoder_start_token_id");
  if (begin == ids.end()) begin = ids.find("bos_token_id");
  if (begin != ids.end()) add("data.tokenizer.decoder_start_token", *begin);
  if (const auto end = ids.find("eos_token_id"); end != ids.end())
    add("data.tokenizer.eos_token", *end);
  if (const auto first = ids.find("forced_bos_token_id"); first != ids.end())
    add("data.tokenizer.forced_bos_token", *first);
}

TokenIds token_ids_of(const Scalars& scalars, const Tokenizer& tokenizer, const DataOptions& data) {
  if (scalars.has(token_ids_scalar)) {
    try {
      return nlohmann::json::parse(scalars.get<std::string>(token_ids_scalar)).get<TokenIds>();
    } catch (const nlohmann::json::exception& error) {
      throw DataError("checkpoint scalar {}: expected token ids: {}",
                      token_ids_scalar,
                      truncated(error.what(), 200));
    }
  }
  const SpecialTokenIds reported = sentence_ids(tokenizer, data.special_tokens);
  TokenIds ids = {{"decoder_start_token_id", reported.begin},
                  {"eos_token_id", reported.end},
                  {"forced_eos_token_id", reported.end},
                  {"pad_token_id", reported.begin}};
  if (reported.first) ids["forced_bos_token_id"] = *reported.first;
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  if (model == nullptr) return ids;
  for (const auto& [key, name] : {std::pair("pad_token_id", "<pad>"), {"bos_token_id", "<s>"}})
    if (const std::int64_t id = model->id_of(name); id >= 0) ids[key] = id;
  return ids;
}

DocumentTokens document_tokens_of(const Scalars& scalars,
                                  const Tokenizer& tokenizer,
                                  const DataOptions& data) {
  std::vector<std::int64_t> found;
  if (const auto end = find_end_of_text(data.documents, tokenizer)) found.push_back(*end);
  const std::vector<std::int64_t> imported = imported_ids(scalars, "eos_token_id");
  found.insert(found.end(), imported.begin(), imported.end());
  if (found.empty() && tokenizer.json_tokenizer() != nullptr)
    found.push_back(own_end_of_text(tokenizer));
  const auto is_known = [&](std::int64_t id) { return id >= 0 && id < tokenizer.vocabulary(); };
  DocumentTokens tokens;
  for (const std::int64_t id : found)
    if (is_known(id) && std::ranges::count(tokens.ends, id) == 0) tokens.ends.push_back(id);
  const std::vector<std::int64_t> begin = imported_ids(scalars, "bos_token_id");
  if (!begin.empty() && is_known(begin.front()))
    tokens.begin = begin.front();
  else if (!tokens.ends.empty())
    tokens.begin = tokens.ends.front();
  return tokens;
}

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
