// Sentences of words with a tag each.
#pragma once

#include <memory>

#include "framework/data/examples/examples.h"
#include "framework/data/examples/tagged_words.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Fields: `tokens` [rows, T], the words with a space between them where the tokenizer has one;
// `targets` [rows, T], a word's tag at its first token and ignored_target elsewhere; `length`
// [rows]. The token of a space that stands alone before a word has none: the first of the word's
// letters has it. A sentence that is cut may end within a word; where one is, and
// BatchRequest::with_left_out is set, `left_out` [rows, n] has the tags of its words that are not
// read, -1 where a row has fewer.
// Counts: "tokens" (words with a tag that are read), "left_out" (others), "bytes" (of the text of
// those that are read) and "rows".
//
// The file is read once, by rank 0; 8 bytes a sentence are kept. A collective. Throws DataError for
// what is wrong with a line, and for a tag that is not in `tags`.
std::shared_ptr<const Examples> open_tags(const ConfigPath& path,
                                          TagColumns columns,
                                          const LabelSet& tags,
                                          const Tokenizer& tokenizer,
                                          const Communicator& all,
                                          const ProgressCallback& listener = {});

}  // namespace longspan
