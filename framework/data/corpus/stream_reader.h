// A corpus as parallel streams: training data, and evaluation data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/core/device.h"
#include "framework/data/batch.h"
#include "framework/data/corpus/corpus.h"

namespace longspan {

// Division of a corpus, equal on every rank and every layout.
struct StreamLayout {
  std::int64_t streams = 1;  // data.global_batch_size
  std::int64_t segment = 1;  // tokens of a stream in one batch

  std::int64_t batches_per_epoch(const Corpus& corpus) const {
    return (corpus.tokens() / streams - 1) / segment;
  }
};

// Cuts a corpus of N tokens into B streams of floor(N / B) (Transformer-XL, Dai et al. 2019): row b
// of batch k+1 continues row b of batch k. An epoch has floor((N / B - 1) / segment) batches. It
// omits less than a segment of each stream, and less than B tokens at the end of the corpus. Epochs
// therefore start at different offsets. The first starts at 0, the second at the last offset that
// allows all batches, and each later one a token earlier. This rank reads the streams s with s *
// ranks / B == rank.
class StreamSource : public BatchSource {
 public:
  // Throws DataError when a stream is shorter than a segment and its last target. Throws
  // ConfigurationError when `ranks` does not divide the streams. Tensors are allocated on `device`,
  // a CPU.
  StreamSource(
      Corpus corpus, const StreamLayout& layout, int rank, int ranks, const Device& device);

  Batch next() override;

  const Corpus& corpus() const { return corpus_; }
  const StreamLayout& layout() const { return layout_; }
  const StreamRange& range() const { return range_; }
  std::int64_t batches_per_epoch() const { return layout_.batches_per_epoch(corpus_); }

  // Returns the offset in each stream at which an epoch starts.
  std::int64_t offset_of(std::int64_t epoch) const;

  // State: [streams of this rank, 2] i64, row = (offset of the next token in its stream, completed
  // epochs). Row i is global stream range().begin + i. So the concatenated rows of all ranks, [B,
  // 2], do not depend on the number of ranks.
  Tensor cursors() const override;
  CursorRows cursor_rows() const override { return {range_.begin, layout_.streams}; }
  // Resumes exactly at these cursors. Throws DataError for positions outside of the streams, and
  // for streams at different positions, because a corpus has one epoch.
  void restore(const Tensor& cursors) override;

 private:
  struct Cursor {
    std::int64_t position = 0;  // in the stream, in tokens
    std::int64_t epoch = 0;
    CorpusPosition at;  // position in the corpus
  };

  Cursor cursor_at(std::int64_t stream, std::int64_t position, std::int64_t epoch) const;
  // Reads one segment into a row of the batch and advances the cursor.
  void read_row(Cursor& cursor, std::int64_t row, Batch& batch) const;

  Corpus corpus_;
  StreamLayout layout_;
  StreamRange range_;
  std::int64_t stream_tokens_ = 0;
  Device device_;
  std::vector<Cursor> cursors_;
};

// Evaluation data: every token exactly once.

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
