// Parallel corpora: two line-aligned files of sources and targets.
#pragma once

#include <memory>

#include "framework/data/examples/examples.h"
#include "framework/data/shared_file.h"
#include "framework/data/tokenization/special_tokens.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Fields: `source` [rows, S] and `source_length` [rows]; `tokens` [rows, T], the target after a
// start token; `targets` [rows, T], the target before an end token; `length` [rows], of both. With
// a special-token template (special_tokens.h), both sides have its tokens, and the end
// token occurs once. Counts: "tokens" (unmasked targets), "source_tokens", "rows", "cells" (sum of
// source times target length) and "bytes". "bytes" are the text bytes of those targets, plus one
// per line for the end that the end token predicts.
//
// With alignments (alignments.h) also `links` [rows, n, 2], padded with -1 and without links of
// truncated tokens, and the count "linked" (targets with a link).
//
// Rank 0 reads the files once. The index takes 16 bytes a pair. Throws DataError for different
// numbers of lines, for an empty line, and for text that the tokenizer rejects. Collective.
std::shared_ptr<const Examples> open_parallel_corpus(const ConfigPath& source,
                                                     const ConfigPath& target,
                                                     const Tokenizer& source_tokenizer,
                                                     const Tokenizer& target_tokenizer,
                                                     const Communicator& all,
                                                     const ProgressCallback& listener = {},
                                                     const ConfigPath& links = {},
                                                     const SpecialTokenNames& named = {});

}  // namespace longspan
