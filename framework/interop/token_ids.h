// Ids of special tokens, as config.json and generation_config.json have them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/interop/model_config.h"

namespace longspan {

inline constexpr const char* generation_config_name = "generation_config.json";

// By the key: "eos_token_id" -> 2. Without what there is none of.
using TokenIds = std::map<std::string, std::int64_t>;

// Those of a model that makes texts of texts. What generation_config.json beside `config` says
// counts before what `config` says, and that before `otherwise`; null is none. Throws DataError for
// what is no id below `vocabulary`, and for an end that is forced and is none.
TokenIds read_token_ids(const ModelConfig& config,
                        std::int64_t vocabulary,
                        const TokenIds& otherwise);

// The keys of both files that ask for more of generation than what ids say: "num_beams".
std::vector<std::string> unsupported_generation_settings(const ModelConfig& config);

// Sets all keys that read_token_ids reads; to null where there is no id.
void write_token_ids(const TokenIds& ids, nlohmann::ordered_json& config);

}  // namespace longspan
