// Text with enough words for a vocabulary of some hundred subwords.
#pragma once

#include <array>
#include <random>
#include <string>

#include "framework/core/input_file.h"
#include "framework/data/tokenization/tokenizer_training.h"
#include "tests/data/temporary_file.h"

namespace longspan {

inline std::string subword_text(int lines = 400, unsigned seed = 1) {
  constexpr std::array syllables = {"ba", "lo", "tir", "men", "ka", "su", "\xC3\xA9t", "ro", "ni"};
  std::mt19937 generator(seed);
  std::string text;
  for (int line = 0; line < lines; ++line) {
    for (unsigned word = 0; word < 6 + generator() % 5; ++word) {
      if (word > 0) text += ' ';
      for (unsigned part = 0; part < 1 + generator() % 3; ++part)
        text += syllables[generator() % syllables.size()];
    }
    text += '\n';
  }
  return text;
}

inline SentencePieceModel subword_model(SentencePieceModelType kind = SentencePieceModelType::bpe,
                                        std::int64_t vocabulary = 320) {
  const TemporaryFile file(subword_text());
  return train_sentencepiece(InputFile(file.path()), kind, vocabulary);
}

}  // namespace longspan
