// Parallel corpora: two line-aligned files of sources and targets, and the word alignments of their
// lines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/examples/examples.h"
#include "framework/data/rank_zero.h"
#include "framework/data/tokenization/special_tokens.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Word alignments of sentence pairs: one line of "i-j" links for each pair of lines.

// A source token and a target token, counted from 0.
struct AlignmentLink {
  std::int64_t source = 0;
  std::int64_t target = 0;
  friend bool operator==(const AlignmentLink&, const AlignmentLink&) = default;
};

// Parses "0-0 1-2 3-2"; an empty line has no links. Throws DataError, prefixed with `place`, for
// other text and for a link beyond `lengths`.
std::vector<AlignmentLink> parse_alignment(std::string_view line,
                                           const Lengths& lengths,
                                           std::string_view place);

// A file of such lines. Rank 0 reads it once. It takes 8 bytes of memory a line.
class AlignmentFile {
 public:
  // `lengths`: lengths of a pair by index, from 0. Throws DataError as parse_alignment, and when
  // the number of lines is not `pairs`. Collective.
  AlignmentFile(const ConfigPath& path,
                std::int64_t pairs,
                const std::function<Lengths(std::int64_t pair)>& lengths,
                const Communicator& all,
                const ProgressCallback& listener);

  std::vector<AlignmentLink> read(std::int64_t pair, const Lengths& lengths) const;

 private:
  SharedFile file_;
  ExampleIndex index_;
};

// Fields: `source` [rows, S] and `source_length` [rows]; `tokens` [rows, T], the target after a
// start token; `targets` [rows, T], the target before an end token; `length` [rows], of both. With
// a special-token template (special_tokens.h), both sides have its tokens, and the end
// token occurs once. Counts: "tokens" (unmasked targets), "source_tokens", "rows", "cells" (sum of
// source times target length) and "bytes". "bytes" are the text bytes of those targets, plus one
// per line for the end that the end token predicts.
//
// With alignments also `links` [rows, n, 2], padded with -1 and without links of truncated tokens,
// and the count "linked" (targets with a link).
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
