// Training data: documents of several texts, mixed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/device.h"
#include "framework/data/corpus/document_list.h"
#include "framework/data/corpus/stream_reader.h"
#include "framework/data/source.h"

namespace longspan {

struct MixtureComponent {
  DocumentList documents;
  double weight = 1;  // more than 0
};

struct MixtureOptions {
  StreamLayout layout;
  std::uint64_t seed = 0;
  bool shuffle = false;  // an order of its own for the documents of each text in each epoch
  bool reset_attention_mask =
      false;  // gives `document_position`, and no target in another document
};

// A stream is documents one after another. Which text the next one is of is chosen so that tokens
// are read in the proportion of the weights: the text that has given least for its weight. Document
// i of a text in epoch e is number e * count + i; stream s of B reads the numbers s, s + B, s + 2B,
// ... of each text: every document once an epoch, on any number of ranks.
class WeightedMixtureSource : public BatchSource {
 public:
  // Throws DataError when nothing can be predicted: documents stand apart and none has two tokens;
  // ConfigurationError when `ranks` does not divide the streams. Tensors are made on
  // `device`, a CPU.
  WeightedMixtureSource(std::vector<MixtureComponent> texts,
                        const MixtureOptions& reading,
                        int rank,
                        int ranks,
                        const Device& device);

  Batch next() override;

  // A row: the text and the token of the document that are read next; then of each text how many
  // documents the stream has begun and how many tokens it has read.
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
    std::int64_t offset = 0;   // of the token that is read next in the document; its end too
    std::vector<Taken> taken;  // of each text
    Range document = {};       // tokens of the corpus
    CorpusPosition at = {};    // of the token that is read next
  };

  std::int64_t columns() const { return 2 + 2 * std::ssize(texts_); }
  const Corpus& corpus_of(const Cursor& cursor) const;
  void begin_document(Cursor& cursor) const;
  // The one that it has begun last, at its offset.
  void find_document(Cursor& cursor) const;
  // Fills `tokens`, and `places` with the place of each in its document. Returns the bytes of those
  // that are targets.
  std::int64_t read(Cursor& cursor,
                    std::span<std::int64_t> tokens,
                    std::span<std::int64_t> places) const;
  void read_row(std::int64_t row, Batch& batch);

  std::vector<MixtureComponent> texts_;
  MixtureOptions reading_;
  StreamRange range_;
  Device device_;
  bool are_texts_ = true;  // the bytes of tokens are known
  std::vector<Cursor> cursors_;
};

}  // namespace longspan
