// How a language model continues passages of a text.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/data/corpus/corpus.h"
#include "framework/tasks/task.h"

namespace longspan {

struct ContinuationOptions {
  std::int64_t samples = 1;  // how many passages, evenly spaced; the first is the beginning
  std::uint64_t seed = 1;
  std::int64_t segment = 1;  // tokens that are read in one pass
};

// Of each passage of a text of at least two tokens: 32 tokens, or fewer of a shorter text, their
// continuation by the model (64 tokens, drawn as they are likely), and the tokens that follow
// there. Of bytes a passage begins with a character. Texts are the same at each call as far as the
// logits are. Collective; the same on every rank, as is the InvalidLogits that it throws where no
// token can be drawn.
std::vector<TextSample> continuations(const Model& model,
                                      const Corpus& corpus,
                                      const ContinuationOptions& options);

}  // namespace longspan
