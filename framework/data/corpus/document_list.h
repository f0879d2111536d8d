// Documents of a corpus by index.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/range.h"
#include "framework/data/corpus/corpus.h"

namespace longspan {

// A value; copies share the corpus. A file without documents is cut into chunks of `piece` tokens;
// the last one may be shorter. Memory use does not depend on the number of documents.
class DocumentList {
 public:
  DocumentList(Corpus corpus, std::int64_t piece);

  const Corpus& corpus() const { return corpus_; }
  std::int64_t count() const { return firsts_.back(); }
  // Returns the tokens of a document, at least one.
  Range at(std::int64_t document) const;
  // Returns the document that contains a token.
  std::int64_t document_of(std::int64_t token) const;

 private:
  Corpus corpus_;
  std::int64_t piece_;
  std::vector<std::int64_t> firsts_ = {0};  // first document of each file, and the total
};

}  // namespace longspan
