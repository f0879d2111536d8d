// Evaluation data: every token exactly once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/data/batch.h"
#include "framework/data/corpus/document_list.h"
#include "framework/data/corpus/stream_reader.h"

namespace longspan {

// One pass over a corpus of N tokens. Each of the N - 1 tokens with a predecessor is a target
// exactly once, for any number of streams, segment length and ranks. The N - 1 pairs (token, next
// token) are divided into `streams` runs whose lengths differ by at most 1. A finished row is
// padded with ignored_target. No batch is wider than the rest of the longest run.
class EvaluationReader {
 public:
  // `most`: pairs read of each run; 0: all. Throws DataError for fewer than two tokens, and
  // ConfigurationError when `ranks` does not divide the streams. Tensors are allocated on `device`,
  // a CPU. With `piece`, the corpus consists of isolated documents, as in DocumentList. Their first
  // tokens are no targets, and batches have the field `document_position`.
  EvaluationReader(Corpus corpus,
                   const StreamLayout& layout,
                   int rank,
                   int ranks,
                   const Device& device,
                   std::int64_t most = 0,
                   std::optional<std::int64_t> piece = {});

  // Number of batches, equal on all ranks.
  std::int64_t batches() const;
  // Returns true when all batches were read.
  bool done() const { return next_ == batches(); }
  // Returns the next batch; the first one resets the recurrent state. Throws Failure when done.
  Batch next();
  // Restarts at the first batch.
  void rewind();

 private:
  // Returns the token at which the pairs of a stream begin.
  std::int64_t stream_begin(std::int64_t stream) const;
  std::int64_t pairs_of(std::int64_t stream) const;
  // Sets the document fields of a row whose first token is `token`, for isolated documents.
  void set_apart(std::int64_t token, std::int64_t row, std::int64_t count, Batch& batch) const;

  Corpus corpus_;
  std::optional<DocumentList> documents_;  // only for isolated documents
  StreamLayout layout_;
  StreamRange range_;
  Device device_;
  std::int64_t longest_ = 0;  // pairs read of the longest run
  std::int64_t next_ = 0;
  std::vector<CorpusPosition> at_;
};

}  // namespace longspan
