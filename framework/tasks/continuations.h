// How a language model goes on with the beginning of a text.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/data/corpus.h"
#include "framework/tasks/task.h"

namespace longspan {

struct ContinuationOptions {
  std::int64_t samples = 1;  // how many, each with random numbers of its own
  std::uint64_t seed = 1;
  std::int64_t segment = 1;  // tokens that are read in one pass
};

// Of a text of at least two tokens: the first 32 of them, or fewer of a shorter one, what the model
// makes of them (64 tokens, drawn as they are likely), and the tokens that follow there. Texts are
// the same at each call as far as the logits are. Collective; the same on every rank, as is the
// UnsoundLogits that it throws where no token can be drawn.
std::vector<TextSample> continuations(const Model& model,
                                      const Corpus& corpus,
                                      const ContinuationOptions& options);

}  // namespace longspan
