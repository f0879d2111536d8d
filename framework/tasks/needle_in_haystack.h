// A needle in a haystack (Kamradt 2023): a sentence that says a number lies in a long text, whose
// end asks for the number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/corpus/corpus.h"
#include "framework/modeling/model.h"

namespace longspan {

struct NeedleOptions {
  std::int64_t segment = 0;  // tokens of an example: text, needle, question and answer
  std::int64_t batch = 1;    // examples of a pass; a multiple of the data ranks
  std::int64_t depths = 10;  // places of the needle, from the beginning of the text to the question
  std::int64_t count = 1;    // examples of each place
  // Hears after each pass how much is done, in bytes of the corpus. What it throws ends the search.
  ProgressCallback listener = {};
};

// What became of the needles of one place.
struct NeedlePlace {
  std::int64_t distance = 0;  // tokens from the needle's number to the answer
  std::int64_t found = 0;     // answers of which each token has more than half of the probability
  double loss = 0;            // nats a token of the answers
};

// The sentence of an example: it is hidden as question + answer + end, and asked for by the
// question. The numbers in it are drawn by chance, the same for all models.
struct Needle {
  std::string question;  // "\nThe number of room 4821 is"
  std::string answer;    // " 73920"
  std::string end;       // ".\n"
};
Needle needle_of(std::int64_t example);

// Each example lies in another stretch of the corpus: example e of n in the one that begins e/n of
// the way. Collective; the same result on every rank, by place from the farthest on. Throws
// ConfigurationError for options that do not fit the model, the mesh or the sentences, DataError
// for a corpus that is shorter than a segment or that has ids and no text.
std::vector<NeedlePlace> evaluate_needles(const Model& model,
                                          const Corpus& corpus,
                                          const NeedleOptions& options);

}  // namespace longspan
