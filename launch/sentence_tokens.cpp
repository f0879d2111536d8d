#include "launch/sentence_tokens.h"

#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/option_text.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {

void add_sentence_tokens(const TokenIds& ids,
                         const Tokenizer& tokenizer,
                         const std::string& place,
                         ModelSettings& settings) {
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  const auto add = [&](const char* key, const TokenIds::value_type& id) {
    const std::string name = model ? model->token(id.second) : fmt::format("{}", id.second);
    if (model && (name.empty() || model->id_of(name) != id.second))
      throw DataError("{}: {} is {}, which is no token of tokenizer.json",
                      place,
                      in_quotes(id.first),
                      id.second);
    settings.emplace_back(key, yaml_word(name));
  };
  auto begin = ids.find("decoder_start_token_id");
  if (begin == ids.end()) begin = ids.find("bos_token_id");
  if (begin != ids.end()) add("data.begin_token", *begin);
  if (const auto end = ids.find("eos_token_id"); end != ids.end()) add("data.end_token", *end);
  if (const auto first = ids.find("forced_bos_token_id"); first != ids.end())
    add("data.first_token", *first);
}

TokenIds token_ids_of(const Scalars& scalars, const Tokenizer& tokenizer, const DataOptions& data) {
  if (scalars.has(token_ids_scalar)) {
    try {
      return nlohmann::json::parse(scalars.get<std::string>(token_ids_scalar)).get<TokenIds>();
    } catch (const nlohmann::json::exception& error) {
      throw DataError("the scalar {} of the checkpoint is none of ids: {}",
                      token_ids_scalar,
                      shortened(error.what(), 200));
    }
  }
  const SentenceIds said = sentence_ids(tokenizer, data.sentence);
  TokenIds ids = {{"decoder_start_token_id", said.begin},
                  {"eos_token_id", said.end},
                  {"forced_eos_token_id", said.end},
                  {"pad_token_id", said.begin}};
  if (said.first) ids["forced_bos_token_id"] = *said.first;
  const JsonTokenizer* const model = tokenizer.json_tokenizer();
  if (model == nullptr) return ids;
  for (const auto& [key, name] : {std::pair("pad_token_id", "<pad>"), {"bos_token_id", "<s>"}})
    if (const std::int64_t id = model->id_of(name); id >= 0) ids[key] = id;
  return ids;
}

}  // namespace longspan
