// Training of SentencePiece models.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "framework/data/progress.h"
#include "framework/data/tokenization/sentencepiece_model.h"

namespace longspan {

class InputFile;

// Training reads at most this many bytes of text: 1,024 evenly spread parts of each longer text.
inline constexpr std::int64_t subword_sample_bytes = std::int64_t{64} << 20;
// Minimum vocabulary: 256 byte-fallback pieces, the unknown, start and end tokens, and one piece.
inline constexpr std::int64_t min_subword_vocabulary = 260;
inline constexpr std::int64_t max_subword_vocabulary = std::int64_t{1} << 24;

// Deterministic: equal texts and settings give equal bytes on every machine with this library
// version. Decoding is lossless, including unknown characters and repeated spaces. Only U+2581,
// SentencePiece's space marker, decodes to a space. A character vocabulary may be smaller than
// requested. Throws DataError for invalid UTF-8, and where the text has too few pieces or too many
// characters for the vocabulary, whose size is set by `key`. The listener receives the read
// progress; SentencePiece then trains for a while.
SentencePieceModel train_sentencepiece(std::span<const InputFile* const> texts,
                                       SentencePieceModelType kind,
                                       std::int64_t vocabulary,
                                       const ProgressCallback& listener = {},
                                       std::int64_t sample_bytes = subword_sample_bytes,
                                       std::string_view key = "data.tokenizer.vocab_size");

// Trains on one text.
inline SentencePieceModel train_sentencepiece(const InputFile& text,
                                              SentencePieceModelType kind,
                                              std::int64_t vocabulary,
                                              const ProgressCallback& listener = {},
                                              std::int64_t sample_bytes = subword_sample_bytes) {
  const InputFile* const texts[] = {&text};
  return train_sentencepiece(texts, kind, vocabulary, listener, sample_bytes);
}

}  // namespace longspan
