#include "launch/cli/special_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/interop/transfer.h"
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

}  // namespace longspan
