// Two files whose lines belong together: a source and what is to be made of it.
#pragma once

#include <memory>

#include "framework/data/examples/examples.h"
#include "framework/data/shared_file.h"
#include "framework/data/tokenization/special_token_ids.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Fields: `source` [rows, S] and `source_length` [rows]; `tokens` [rows, T], the target after the
// beginning of a sentence; `targets` [rows, T], the target before the end of one; `length` [rows],
// of both. Where the tokenizer frames a text (special_token_template.h), both sides have its frame;
// the end of a sentence is there once. Counts: "tokens" (targets that count), "source_tokens",
// "bytes" (of the text of those targets, and one for the end of each line, which the end of the
// sentence predicts), "rows" and "cells" (the products of both lengths).
//
// With a file of links (alignments.h) also `links` [rows, n, 2], -1 where a row has fewer, without
// those of what is cut, and the count "linked" (targets with a link).
//
// The files are read once, by rank 0; 16 bytes a pair are kept. A collective. Throws DataError for
// files of different line counts, an empty line, and what a tokenizer cannot read.
std::shared_ptr<const Examples> open_parallel_corpus(const ConfigPath& source,
                                                     const ConfigPath& target,
                                                     const Tokenizer& source_tokenizer,
                                                     const Tokenizer& target_tokenizer,
                                                     const Communicator& all,
                                                     const ProgressCallback& listener = {},
                                                     const ConfigPath& links = {},
                                                     const SpecialTokenNames& named = {});

}  // namespace longspan
