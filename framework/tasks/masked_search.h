// The results of a model that says all words of a target at once.
#pragma once

#include <span>
#include <vector>

#include "framework/decoding/mask_predict.h"
#include "framework/modeling/model.h"

namespace longspan {

struct MaskedSearchOptions {
  SearchVocabulary vocabulary = {};
  std::int64_t iterations = 10;
  std::int64_t lengths = 5;  // that are tried around the predicted one
  std::int64_t n_best = 1;
};

// What is wrong with the options, as a sentence; empty where nothing is.
std::string problem_of(const MaskedSearchOptions& options);

// Of each source (token ids; `inputs` say how long a result may be) its best results. Sources are
// encoded once. Collective over the ranks that share the rows' time or the weights, and the same on
// them. Throws as mask_predict does.
std::vector<std::vector<Hypothesis>> masked_search(
    const Model& model,
    std::span<const std::vector<std::int64_t>> sources,
    std::span<const SearchInput> inputs,
    const MaskedSearchOptions& options);

}  // namespace longspan
