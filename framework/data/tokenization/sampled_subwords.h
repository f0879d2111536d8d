// Subword regularization (Kudo 2018): samples a new segmentation of a line on each read.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/core/random.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Number of most likely segmentations to sample from.
inline constexpr int sampled_segmentations = 64;

// Samples a segmentation of the line into at most `most` subwords, with probability proportional to
// the power `alpha` of its likelihood. Depends only on `place` and the line. Returns the default
// segmentation where none is that short, and for tokenizers with only one. Throws DataError as
// Tokenizer::encode.
//
// SentencePiece can sample too, but from a thread-local generator that is seeded once. Its samples
// would depend on earlier reads of that thread.
std::vector<std::int64_t> sample_subwords(const Tokenizer& tokenizer,
                                          std::string_view line,
                                          double alpha,
                                          std::size_t most,
                                          const Random& place,
                                          std::string_view where);

}  // namespace longspan
