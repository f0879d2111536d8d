// Maps the rows of one vocabulary's tables to those of another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoints/training_state.h"
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

// Returns 0, 1, ..., count - 1.
std::vector<std::int64_t> same_rows(std::int64_t count);

// Sets row i of the model's table to row rows[i] of `table`, or leaves it unchanged if rows[i] is
// -1. `table`: f32 or f64, on the host. `piece`: this rank's shard of the table, a box of its rows
// and columns (f32 or f64, on any device).
void gather_rows(const Tensor& table,
                 const std::vector<std::int64_t>& rows,
                 const StateTensor& piece);

}  // namespace longspan
