// Labeled text: a label, a tab and a text on every line.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "framework/data/examples/examples.h"
#include "framework/data/examples/label_set.h"
#include "framework/data/rank_zero.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Returns the labels of a file. Throws DataError for a line without a label. Collective.
LearnedLabels learn_labels(const ConfigPath& path,
                           const Communicator& all,
                           const ProgressCallback& listener = {});

// Fields: `tokens` [rows, T], `length` [rows] and `label` [rows], which is ignored_target for an
// empty row. Counts: "rows", and "tokens" and "bytes" of the texts.
//
// Rank 0 reads the file once. The index takes 8 bytes a line. Throws DataError for a line without a
// tab, a label or a text, and for a label outside of `labels`. Collective.
std::shared_ptr<const Examples> open_labels(const ConfigPath& path,
                                            const LabelSet& labels,
                                            const Tokenizer& tokenizer,
                                            const Communicator& all,
                                            const ProgressCallback& listener = {});

// Rows of labeled examples.

// Metadata of an example that was read.
struct ClassRow {
  std::int64_t length = 0;  // columns of the row that it fills
  std::int64_t bytes = 0;
  std::int64_t label = 0;
};

// Returns the requested batch, with the named field [rows, columns], "length" and "label" [rows].
// `read` fills the rows of the field, which are initially 0.
using ReadClassRow = std::function<ClassRow(std::int64_t example, std::span<std::int64_t> row)>;
Batch read_class_rows(const BatchRequest& request,
                      const std::string& field,
                      const ReadClassRow& read);

}  // namespace longspan
