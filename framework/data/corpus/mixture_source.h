// Training data: a weighted mixture of documents of several corpora.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/random.h"
#include "framework/data/batch.h"
#include "framework/data/corpus/corpus.h"
#include "framework/data/corpus/stream_reader.h"

namespace longspan {

struct MixtureComponent {
  DocumentList documents;
  double weight = 1;  // positive
};

struct MixtureOptions {
  StreamLayout layout;
  std::uint64_t seed = 0;
  bool shuffle = false;               // shuffles the documents of each corpus in each epoch
  bool reset_attention_mask = false;  // adds `document_position`; no targets across documents
};

// Each stream concatenates documents. The next document comes from the corpus with the fewest
// tokens read relative to its weight, so token counts follow the weights. Document i of a corpus in
// epoch e has number e * count + i. Stream s of B reads numbers s, s + B, s + 2B, ... of each
// corpus. So every document occurs once an epoch, on any number of ranks.
class WeightedMixtureSource : public BatchSource {
 public:
  // Throws DataError when there is no target: documents are isolated and none has two tokens.
  // Throws ConfigurationError when `ranks` does not divide the streams. Tensors are allocated on
  // `device`, a CPU.
  WeightedMixtureSource(std::vector<MixtureComponent> texts,
                        const MixtureOptions& reading,
                        int rank,
                        int ranks,
                        const Device& device);

  Batch next() override;

  // One row per stream: corpus and token of the document read next. Then, per corpus, the documents
  // that the stream has begun and the tokens that it has read.
  Tensor cursors() const override;
  CursorRows cursor_rows() const override { return {range_.begin, reading_.layout.streams}; }
  void restore(const Tensor& cursors) override;

 private:
  struct Taken {
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
  };
  struct Cursor {
    std::int64_t stream = 0;
    std::int64_t text = 0;
    std::int64_t offset = 0;   // of the next token in the document; may be its end
    std::vector<Taken> taken;  // per corpus
    Range document = {};       // token range in the corpus
    CorpusPosition at = {};    // position of the next token
  };

  std::int64_t columns() const { return 2 + 2 * std::ssize(texts_); }
  const Corpus& corpus_of(const Cursor& cursor) const;
  void begin_document(Cursor& cursor) const;
  // Locates the document begun last, at its offset.
  void find_document(Cursor& cursor) const;
  // Fills `tokens`, and `places` with the position of each in its document. Returns the bytes of
  // the targets among them.
  std::int64_t read(Cursor& cursor,
                    std::span<std::int64_t> tokens,
                    std::span<std::int64_t> places) const;
  void read_row(std::int64_t row, Batch& batch);

  std::vector<MixtureComponent> texts_;
  MixtureOptions reading_;
  StreamRange range_;
  Device device_;
  bool are_texts_ = true;  // the text bytes of tokens are known
  std::vector<Cursor> cursors_;
};

// A random permutation in constant memory.

// Returns element `at` of a random permutation of 0 .. count - 1. A Feistel network over the bits
// of `count`, iterated until the result is in range (cycle walking, Black and Rogaway 2002).
// Requires count >= 1 and at < count.
std::int64_t shuffled_index(const Random& random, std::int64_t count, std::int64_t at);

}  // namespace longspan
