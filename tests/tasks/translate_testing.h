// Small sequence-to-sequence models over bytes.
#pragma once

#include "framework/modeling/heads.h"
#include "framework/tasks/translate.h"
#include "models/encoder_decoder.h"
#include "tests/support/small_models.h"

namespace longspan::testing {

inline constexpr std::int64_t ids_of_bytes = 258;  // with the begin and end tokens

inline std::unique_ptr<Model> small_encoder_decoder(EncoderDecoderOptions options,
                                                    const ProcessMesh& mesh = {}) {
  options.common = small_options(2);
  options.common.norm = NormPosition::pre;
  ModelBuildOptions setting = small_setting(mesh);
  setting.vocabulary = ids_of_bytes;
  return std::make_unique<Model>(setting, encoder_decoder_body(options), seq2seq_head());
}

inline std::unique_ptr<Model> small_encoder_decoder(
    CrossAttentionMapping wiring = CrossAttentionMapping::last, const ProcessMesh& mesh = {}) {
  EncoderDecoderOptions options;
  options.wiring = wiring;
  return small_encoder_decoder(options, mesh);
}

inline std::vector<std::vector<Translation>> translated(const Model& model,
                                                        const std::vector<std::string>& lines,
                                                        const TranslateOptions& options) {
  return translate(model, Tokenizer(), lines, options, [](std::size_t i) {
    return fmt::format("lines:{}", i + 1);
  });
}

// The results as text, with scores to 9 decimals, as sums may be rounded differently.
inline std::string format_results(const std::vector<std::vector<Translation>>& found) {
  std::string text;
  for (const auto& of_line : found) {
    for (const Translation& one : of_line)
      text += fmt::format("{:?} {:.9f} {:.9f}; ", one.text, one.score, one.log_probability);
    text += "\n";
  }
  return text;
}

}  // namespace longspan::testing
