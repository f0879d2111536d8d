// What begins and ends a sentence that is to be produced.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "framework/data/tokenizer.h"

namespace longspan {

// Ids beside those of a text. Where the tokenizer's model has them they are its own; else they
// follow its vocabulary, whose ids stay what they are.
struct SentenceIds {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t vocabulary = 0;  // the number of ids with both
};

SentenceIds sentence_ids(const Tokenizer& tokenizer);

// The text of what was produced: up to the first end of a sentence, without what stands for no
// text. Throws DataError for an id outside of the vocabulary.
std::string decode_sentence(const Tokenizer& tokenizer, std::span<const std::int64_t> ids);

}  // namespace longspan
