// Labeled text: a label, a tab and a text on every line.
#pragma once

#include <memory>

#include "framework/data/examples/examples.h"
#include "framework/data/examples/label_set.h"
#include "framework/data/shared_file.h"
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

}  // namespace longspan
