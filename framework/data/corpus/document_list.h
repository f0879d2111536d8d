// The documents of a corpus, by number.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/range.h"
#include "framework/data/corpus/corpus.h"

namespace longspan {

// A value; copies share the corpus. A file that has no documents is cut into pieces of so many
// tokens, the last of which may be shorter. What it holds does not grow with their number.
class DocumentList {
 public:
  DocumentList(Corpus corpus, std::int64_t piece);

  const Corpus& corpus() const { return corpus_; }
  std::int64_t count() const { return firsts_.back(); }
  // The tokens of a document, at least one.
  Range at(std::int64_t document) const;
  // The document that a token is in.
  std::int64_t document_of(std::int64_t token) const;

 private:
  Corpus corpus_;
  std::int64_t piece_;
  std::vector<std::int64_t> firsts_ = {0};  // of each file, and one more
};

}  // namespace longspan
