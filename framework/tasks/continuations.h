// Sample continuations of corpus passages by a language model.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/data/corpus/corpus.h"
#include "framework/tasks/task.h"

namespace longspan {

struct ContinuationOptions {
  std::int64_t samples = 1;  // number of passages, evenly spaced; the first is the start of the
                             // corpus
  std::uint64_t seed = 1;
  std::int64_t segment = 1;  // tokens per forward pass
};

// Collective; equal on every rank, as is the InvalidLogits that it throws where no token can be
// sampled. Returns, for each passage of a corpus of at least two tokens: up to 32 tokens as prompt,
// 64 sampled tokens, and the tokens that actually follow. For bytes a passage starts at a
// character. Samples are equal at each call if the logits are.
std::vector<TextSample> continuations(const Model& model,
                                      const Corpus& corpus,
                                      const ContinuationOptions& options);

}  // namespace longspan
