// Temporary files of examples, and access to the fields of a batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/batching/batch_rows.h"
#include "framework/data/examples/examples.h"
#include "framework/data/examples/parallel_examples.h"
#include "tests/data/temporary_file.h"

namespace longspan::testing {

// Pairs of lines with many lengths. Line n begins with n, so that all lines differ.
struct PairText {
  std::string source;
  std::string target;
};
inline PairText pair_text(int lines) {
  PairText text;
  std::uint32_t state = 1;
  const auto below = [&state](std::uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % bound;
  };
  for (int line = 0; line < lines; ++line) {
    const std::size_t length = below(40);
    text.source += std::to_string(line) + std::string(length, 's') + "\n";
    text.target += std::to_string(line) + std::string(length / 2 + below(12), 't') + "\n";
  }
  return text;
}

inline std::shared_ptr<const Examples> pairs_of(const std::string& source,
                                                const std::string& target,
                                                const Tokenizer& tokenizer = {}) {
  const TemporaryFile first(source);
  const TemporaryFile second(target);
  return open_parallel_corpus(first.path(), second.path(), tokenizer, tokenizer, Communicator());
}
inline std::shared_ptr<const Examples> pairs_of(int lines) {
  const PairText text = pair_text(lines);
  return pairs_of(text.source, text.target);
}

// Returns the first `length` columns of row `row` of a field.
inline std::vector<std::int64_t> row(const Batch& batch,
                                     std::string_view field,
                                     std::int64_t row,
                                     std::int64_t length) {
  const Tensor& values = batch.field(field);
  const auto all = values.span<std::int64_t>();
  const auto begin = all.begin() + row * values.shape()[1];
  return {begin, begin + length};
}
inline std::int64_t at(const Batch& batch, std::string_view field, std::int64_t row) {
  return batch.field(field).span<std::int64_t>()[static_cast<std::size_t>(row)];
}

// Returns the text of byte ids.
inline std::string text_of(const std::vector<std::int64_t>& ids) {
  std::string text;
  for (const std::int64_t id : ids) text.push_back(static_cast<char>(id));
  return text;
}
inline std::string source_of(const Batch& batch, std::int64_t i) {
  return text_of(row(batch, "source", i, at(batch, "source_length", i)));
}

}  // namespace longspan::testing
