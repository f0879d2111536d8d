// What configurations of models have in common that make a text of a text.
#pragma once

#include <fmt/format.h>

#include "framework/interop/architecture.h"

namespace longspan {

// Adds the keys of the task, and of layers where the encoder has others than the decoder.
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

// Says what is asked of generation there and not done here.
inline void note_generation_settings(const ModelConfig& config, ImportedConfig& meaning) {
  const std::vector<std::string> wishes = unsupported_generation_settings(config);
  if (wishes.empty()) return;
  meaning.remarks.push_back(fmt::format(
      "{}: how results are searched for there; longspan generate and evaluate do as their own "
      "options say (--beam, --length-penalty, --longest-beyond)",
      fmt::join(wishes, ", ")));
}

}  // namespace longspan
