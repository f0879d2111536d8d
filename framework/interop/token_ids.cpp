#include "framework/interop/token_ids.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>

namespace longspan {
namespace {

constexpr std::array<const char*, 6> keys = {"bos_token_id",
                                             "pad_token_id",
                                             "eos_token_id",
                                             "decoder_start_token_id",
                                             "forced_bos_token_id",
                                             "forced_eos_token_id"};
constexpr std::array<const char*, 14> requests = {"do_sample",
                                                  "num_beams",
                                                  "num_beam_groups",
                                                  "length_penalty",
                                                  "min_length",
                                                  "max_length",
                                                  "min_new_tokens",
                                                  "max_new_tokens",
                                                  "no_repeat_ngram_size",
                                                  "encoder_no_repeat_ngram_size",
                                                  "repetition_penalty",
                                                  "bad_words_ids",
                                                  "suppress_tokens",
                                                  "begin_suppress_tokens"};

std::optional<ModelConfig> generation_config(const ModelConfig& config) {
  const auto path = std::filesystem::path(config.place()).parent_path() / generation_config_name;
  std::error_code unused;
  if (!std::filesystem::exists(path, unused)) return std::nullopt;
  return ModelConfig(path);
}

}  // namespace

TokenIds read_token_ids(const ModelConfig& config,
                        std::int64_t vocabulary,
                        const TokenIds& otherwise) {
  const std::optional<ModelConfig> generation = generation_config(config);
  TokenIds ids;
  for (const char* const key : keys) {
    const ModelConfig& source = generation && generation->has(key) ? *generation : config;
    if (source.is_list(key)) source.throw_data_error(key, "expected one id, found a list");
    const bool is_configured =
        config.is_present(key) || (generation && generation->is_present(key));
    if (source.has(key))
      ids[key] = source.integer(key, 0, vocabulary - 1);
    else if (const auto usual = otherwise.find(key); !is_configured && usual != otherwise.end())
      ids.insert(*usual);
  }
  const auto forced = ids.find("forced_eos_token_id");
  if (forced == ids.end()) return ids;
  const auto end = ids.find("eos_token_id");
  if (end == ids.end() || end->second != forced->second)
    config.throw_data_error(
        forced->first,
        fmt::format("expected the id of \"eos_token_id\", found {}", forced->second));
  return ids;
}

std::vector<std::string> unsupported_generation_settings(const ModelConfig& config) {
  const std::optional<ModelConfig> generation = generation_config(config);
  std::vector<std::string> found;
  for (const char* const key : requests)
    if (config.has(key) || (generation && generation->has(key))) found.emplace_back(key);
  return found;
}

void write_token_ids(const TokenIds& ids, nlohmann::ordered_json& config) {
  for (const char* const key : keys) {
    const auto found = ids.find(key);
    config[key] = nullptr;
    if (found != ids.end()) config[key] = found->second;
  }
}

}  // namespace longspan
