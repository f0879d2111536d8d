// Needle-in-a-haystack evaluation (Kamradt 2023): a sentence with a number is hidden in a long
// text, and the text ends with a question for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/corpus/corpus.h"
#include "framework/modeling/model.h"

namespace longspan {

struct NeedleOptions {
  std::int64_t segment = 0;  // tokens of an example: text, needle, question and answer
  std::int64_t batch = 1;    // examples per pass; a multiple of the data ranks
  std::int64_t depths = 10;  // number of needle depths, from the start of the text to the question
  std::int64_t count = 1;    // examples per depth
  // Receives the progress after each pass, in bytes of the corpus. An exception from it ends the
  // evaluation.
  ProgressCallback listener = {};
};

// Result of one depth.
struct NeedlePosition {
  std::int64_t distance = 0;  // tokens from the needle's number to the answer
  std::int64_t found = 0;     // answers whose tokens all have a probability above 1/2
  double loss = 0;            // nats per token of the answers
};

// The sentence of an example: question + answer + end is hidden, and the question is asked. The
// numbers are random and equal for all models.
struct Needle {
  std::string question;  // "\nThe number of room 4821 is"
  std::string answer;    // " 73920"
  std::string end;       // ".\n"
};
Needle needle_of(std::int64_t example);

// Collective; equal on every rank. Returns results by depth, longest distance first. Example e of n
// uses the stretch of the corpus that starts at fraction e/n. Throws ConfigurationError for options
// that do not fit the model, the mesh or the sentences. Throws DataError for a corpus that is
// shorter than a segment or has ids without text.
std::vector<NeedlePosition> evaluate_needles(const Model& model,
                                             const Corpus& corpus,
                                             const NeedleOptions& options);

}  // namespace longspan
