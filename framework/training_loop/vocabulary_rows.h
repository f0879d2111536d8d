// Which rows of one vocabulary's tables are those of another's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// A vocabulary and the rows that a model has for it: at least as many as there are ids.
struct VocabularyTable {
  const Tokenizer& tokenizer;
  std::int64_t rows = 0;
};

// For each row of `to` the row of `from` with the same meaning, -1 where there is none: of bytes,
// and of equal tokenizers, the same row; of characters that of the same character, and of
// `<unknown>` that of `<unknown>`. The tokenizers are of one kind.
std::vector<std::int64_t> matching_rows(const VocabularyTable& from, const VocabularyTable& to);

}  // namespace longspan
