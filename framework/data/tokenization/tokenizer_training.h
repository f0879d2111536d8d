// Training of tokenizers: tokenizer.json and SentencePiece models.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/input_file.h"
#include "framework/data/progress.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/tokenizers/tokenizer_trainer.h"

namespace longspan {

// Streams the texts once on all cores. They may be compressed and larger than memory; only distinct
// words and their counts are stored. Document boundaries are ignored, except in JSON Lines, where
// each `field` (data.documents.text_field) is a text. Deterministic: equal texts and rules give
// equal bytes for any number of threads. Text without a cut position within 16 MiB is cut after any
// character. Throws DataError as DocumentReader, for invalid UTF-8, and where there are too few
// pairs or too many characters for the vocabulary. The listener receives the read progress.
JsonTokenizer train_json_tokenizer(std::span<const std::shared_ptr<const InputFile>> texts,
                                   const std::optional<std::string>& field,
                                   const TokenizerRules& rules,
                                   const ProgressCallback& listener = {});

// Training of SentencePiece models.

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
