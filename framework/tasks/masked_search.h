// Decoding of non-autoregressive models.
#pragma once

#include <span>
#include <vector>

#include "framework/decoding/mask_predict.h"
#include "framework/modeling/model.h"

namespace longspan {

struct MaskedSearchOptions {
  SearchVocabulary vocabulary = {};
  std::int64_t iterations = 10;
  std::int64_t lengths = 5;  // candidate lengths around the predicted one
  std::int64_t n_best = 1;
};

// Returns why the options are invalid; empty if they are valid.
std::string problem_of(const MaskedSearchOptions& options);

// Collective over the ranks that share the rows' time or the weights; equal on them. Returns the
// best results of each source (token ids); `inputs` give the maximum lengths. Each source is
// encoded once. Throws as mask_predict does.
std::vector<std::vector<Hypothesis>> masked_search(
    const Model& model,
    std::span<const std::vector<std::int64_t>> sources,
    std::span<const SearchInput> inputs,
    const MaskedSearchOptions& options);

}  // namespace longspan
