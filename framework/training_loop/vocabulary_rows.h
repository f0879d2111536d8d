// Maps the rows of one vocabulary's tables to those of another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// A vocabulary and the number of rows that a model has for it, at least the number of IDs.
struct VocabularyTable {
  const Tokenizer& tokenizer;
  std::int64_t rows = 0;
};

// Returns, for each row of `to`, the row of `from` with the same meaning, or -1 if there is none.
// Bytes and equal tokenizers map to the same row. Characters map to the row of the same character,
// and `<unknown>` to `<unknown>`. Requires tokenizers of one type.
std::vector<std::int64_t> matching_rows(const VocabularyTable& from, const VocabularyTable& to);

}  // namespace longspan
