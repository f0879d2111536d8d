// Texts with a label each: a label, a tab and a text on every line.
#pragma once

#include <memory>

#include "framework/data/examples/examples.h"
#include "framework/data/examples/label_set.h"
#include "framework/data/shared_file.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// The labels of a file. A collective. Throws DataError for a line without them.
LearnedLabels learn_labels(const ConfigPath& path,
                           const Communicator& all,
                           const ProgressCallback& listener = {});

// Fields: `tokens` [rows, T], `length` [rows] and `label` [rows], which is ignored_target of an
// empty row. Counts: "rows", "tokens" (of the texts) and "bytes" (likewise).
//
// The file is read once, by rank 0; 8 bytes a line are kept. A collective. Throws DataError for a
// line without a tab, without a label or without a text, and for a label that is not in `labels`.
std::shared_ptr<const Examples> open_labels(const ConfigPath& path,
                                            const LabelSet& labels,
                                            const Tokenizer& tokenizer,
                                            const Communicator& all,
                                            const ProgressCallback& listener = {});

}  // namespace longspan
