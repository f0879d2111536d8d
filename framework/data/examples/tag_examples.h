// Sentences of tagged words.
#pragma once

#include <memory>

#include "framework/data/examples/examples.h"
#include "framework/data/examples/tagged_words.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Fields: `tokens` [rows, T], the words, separated by spaces if the tokenizer has one; `targets`
// [rows, T], a word's tag at its first token and ignored_target elsewhere; `length` [rows]. A
// separate space token before a word has no tag; the first token of its letters has. Truncation may
// split a word. Then, with BatchRequest::with_left_out, `left_out` [rows, n] has the tags of words
// that were dropped, padded with -1. Counts: "tokens" (tagged words read), "left_out" (tagged words
// dropped), "bytes" (text of the words read) and "rows".
//
// Rank 0 reads the file once. The index takes 8 bytes a sentence. Throws DataError for an invalid
// line and for a tag outside of `tags`. Collective.
std::shared_ptr<const Examples> open_tags(const ConfigPath& path,
                                          TagColumns columns,
                                          const LabelSet& tags,
                                          const Tokenizer& tokenizer,
                                          const Communicator& all,
                                          const ProgressCallback& listener = {});

}  // namespace longspan
