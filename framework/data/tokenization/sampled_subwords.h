// Subword regularisation (Kudo 2018): another segmentation of a line each time it is read.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/core/random.h"
#include "framework/data/tokenization/tokenizer.h"

namespace longspan {

// Of so many likeliest segmentations one is drawn.
inline constexpr int sampled_segmentations = 64;

// One of the line's segmentations into at most `most` subwords, drawn with a probability in
// proportion to the `alpha`-th power of its own: a function of `place` and the line alone. Where
// none is so short, and for tokenizers that know one segmentation, the usual one. Throws DataError,
// as Tokenizer::encode does.
//
// SentencePiece could draw too, but from a generator of a thread that is seeded once: what it drew
// would depend on what was read before on that thread.
std::vector<std::int64_t> sample_subwords(const Tokenizer& tokenizer,
                                          std::string_view line,
                                          double alpha,
                                          std::size_t most,
                                          const Random& place,
                                          std::string_view where);

}  // namespace longspan
