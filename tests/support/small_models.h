// Small models in float64, with large weights so that each weight affects the output.
#pragma once

#include <memory>
#include <string>

#include "models/decoder.h"
#include "models/transformer_xl.h"
#include "tests/data/temporary_file.h"

namespace longspan::testing {

inline ModelBuildOptions small_setting(const ProcessMesh& mesh = {},
                                       const Device& device = Device::cpu()) {
  return {.vocabulary = 256,
          .segment = 8,
          .compute = DType::f64,
          .device = device,
          .mesh = mesh,
          .random = Random(7)};
}

inline ModelOptions small_options(std::int64_t layers) {
  return {.layers = layers,
          .width = 16,
          .heads = 4,
          .feed_forward = 24,
          .dropout = 0.5,  // evaluation must not apply it
          .initial_deviation = 0.4};
}

inline TransformerXlOptions small_transformer_xl(std::int64_t layers, std::int64_t memory) {
  return {.common = small_options(layers), .memory = memory, .clamp_length = {}};
}

inline DecoderOptions small_decoder(std::int64_t layers) {
  DecoderOptions options;
  options.common = small_options(layers);
  options.common.norm = NormPosition::pre;
  return options;
}

// Random letters a to z.
inline std::string varied_text(std::size_t bytes) {
  std::string text;
  const Random random(3);
  for (std::size_t i = 0; i < bytes; ++i)
    text += static_cast<char>('a' + static_cast<char>(random.word(i) % 26));
  return text;
}

}  // namespace longspan::testing
