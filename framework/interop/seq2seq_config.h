// Common settings of seq2seq configurations.
#pragma once

#include <fmt/format.h>

#include "framework/interop/architecture.h"

namespace longspan {

// Adds the keys of the task and of the layers, separately for an encoder of other depth than the
// decoder.
inline void add_pair_settings(std::int64_t encoder_layers,
                              std::int64_t decoder_layers,
                              ModelSettings& settings) {
  settings.emplace_back("run.task", "translation");
  settings.emplace_back("model.family", "encoder_decoder");
  settings.emplace_back("data.train_target", "your-targets.txt");
  settings.emplace_back("model.num_hidden_layers", fmt::format("{}", decoder_layers));
  if (encoder_layers != decoder_layers)
    settings.emplace_back("model.num_encoder_layers", fmt::format("{}", encoder_layers));
}

inline std::int64_t encoder_layers_of(const ModelValues& values) {
  return values.integer_or("model.num_encoder_layers", values.integer("model.num_hidden_layers"));
}

// Adds a remark about unsupported generation settings.
inline void note_generation_settings(const ModelConfig& config, ImportedConfig& meaning) {
  const std::vector<std::string> requests = unsupported_generation_settings(config);
  if (requests.empty()) return;
  meaning.remarks.push_back(
      fmt::format("{}: ignored; longspan generate and evaluate use --beam, --length-penalty and "
                  "--max-extra-length",
                  fmt::join(requests, ", ")));
}

}  // namespace longspan
