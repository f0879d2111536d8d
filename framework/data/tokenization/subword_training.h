// Making a subword model of a text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "framework/data/progress.h"
#include "framework/data/tokenization/sentencepiece_model.h"

namespace longspan {

class InputFile;

// Of texts no more is learned from than this: 1,024 parts of each, spread evenly, where they
// are longer.
inline constexpr std::int64_t subword_sample_bytes = std::int64_t{64} << 20;
// The 256 bytes, which stand for what no piece stands for; an unknown; a sentence's two ends; and
// one piece.
inline constexpr std::int64_t least_subword_vocabulary = 260;
inline constexpr std::int64_t most_subword_vocabulary = std::int64_t{1} << 24;

// The same texts and settings give the same bytes on every machine with the same library. What it
// encodes it gives back, unknown characters and repeated spaces too; only the character U+2581,
// by which SentencePiece means a space, comes back as one. A vocabulary of characters may be
// smaller than asked for. Throws DataError where the text is not UTF-8, and where it has too few
// pieces, or too many characters, for the vocabulary. The listener hears of the text as it is read,
// after which SentencePiece is at work for a while.
SentencePieceModel train_sentencepiece(std::span<const InputFile* const> texts,
                                       SentencePieceModelType kind,
                                       std::int64_t vocabulary,
                                       const ProgressCallback& listener = {},
                                       std::int64_t sample_bytes = subword_sample_bytes);

// Of one text.
inline SentencePieceModel train_sentencepiece(const InputFile& text,
                                              SentencePieceModelType kind,
                                              std::int64_t vocabulary,
                                              const ProgressCallback& listener = {},
                                              std::int64_t sample_bytes = subword_sample_bytes) {
  const InputFile* const texts[] = {&text};
  return train_sentencepiece(texts, kind, vocabulary, listener, sample_bytes);
}

}  // namespace longspan
