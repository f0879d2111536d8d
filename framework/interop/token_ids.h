// Special token ids of config.json and generation_config.json.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/interop/model_config.h"

namespace longspan {

inline constexpr const char* generation_config_name = "generation_config.json";

// By key: "eos_token_id" -> 2. Absent tokens have no entry.
using TokenIds = std::map<std::string, std::int64_t>;

// Reads the ids of a seq2seq model. generation_config.json next to `config` takes precedence over
// `config`, and that over `otherwise`; null means none. Throws DataError for ids not below
// `vocabulary`, and for a forced end without an id.
TokenIds read_token_ids(const ModelConfig& config,
                        std::int64_t vocabulary,
                        const TokenIds& otherwise);

// Returns unsupported generation keys of both files, such as "num_beams".
std::vector<std::string> unsupported_generation_settings(const ModelConfig& config);

// Sets all keys that read_token_ids reads; null without an id.
void write_token_ids(const TokenIds& ids, nlohmann::ordered_json& config);

}  // namespace longspan
