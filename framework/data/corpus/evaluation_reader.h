// Evaluation data: every token once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/data/batch.h"
#include "framework/data/corpus/document_list.h"
#include "framework/data/corpus/stream_reader.h"

namespace longspan {

// One pass over a corpus of N tokens in which each of the N - 1 tokens that have a token before
// them is a target exactly once, whatever the number of streams, segment and ranks. The N - 1 pairs
// (token, next token) are cut into `streams` runs whose lengths differ by at most 1; a row that has
// come to its end is padded with ignored_target, and no batch is wider than what is left of the
// longest.
class EvaluationReader {
 public:
  // Of each run only the first `most` pairs; 0: all. Throws DataError when there are fewer than two
  // tokens, ConfigurationError when `ranks` does not divide the streams. Tensors are made on
  // `device`, a CPU. With `piece` the corpus is documents that stand apart, as in DocumentList:
  // their first tokens are no targets, and batches have the field `document_position`.
  EvaluationReader(Corpus corpus,
                   const StreamLayout& layout,
                   int rank,
                   int ranks,
                   const Device& device,
                   std::int64_t most = 0,
                   std::optional<std::int64_t> piece = {});

  // Equal on all ranks.
  std::int64_t batches() const;
  // True when all batches were read.
  bool done() const { return next_ == batches(); }
  // The next batch; the first one is fresh. Throws Failure when done.
  Batch next();
  // Back to the first batch.
  void rewind();

 private:
  // The pairs of a stream begin at this token.
  std::int64_t stream_begin(std::int64_t stream) const;
  std::int64_t pairs_of(std::int64_t stream) const;
  // Of a row whose first token is `token`, of documents that stand apart.
  void set_apart(std::int64_t token, std::int64_t row, std::int64_t count, Batch& batch) const;

  Corpus corpus_;
  std::optional<DocumentList> documents_;  // that stand apart
  StreamLayout layout_;
  StreamRange range_;
  Device device_;
  std::int64_t longest_ = 0;  // pairs read of the longest run
  std::int64_t next_ = 0;
  std::vector<CorpusPosition> at_;
};

}  // namespace longspan
