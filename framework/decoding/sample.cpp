#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/decoding/top_k.h"

namespace longspan {
namespace {

// An active sample.
struct DrawnSample {
  Hypothesis* result;
  const SearchInput* input;
  Random random;
  std::int64_t row;   // row in the previous step
  std::int64_t next;  // next token to read
};

double log_probability(std::span<const double> logits, std::int64_t token) {
  const double highest = std::ranges::max(logits);
  return logits[static_cast<std::size_t>(token)] - highest -
         std::log(sum_of_exponentials(logits, highest));
}

// Samples the next token. Returns whether the sample continues.
bool draw_next(DrawnSample& drawing,
               const StepLogits& logits,
               std::size_t row,
               const SampleOptions& options) {
  Hypothesis& hypothesis = *drawing.result;
  const double uniform = uniform_at(drawing.random, hypothesis.tokens.size());
  try {
    drawing.next = sample_token(logits.allowed(row), options.sampling, uniform);
  } catch (const InvalidLogits& error) {
    throw InvalidLogits("input {}: {}", drawing.input->index, error.what());
  }
  hypothesis.log_probability += log_probability(logits.all(row), drawing.next);
  hypothesis.score = hypothesis.log_probability;
  hypothesis.ended = drawing.next == options.vocabulary.end;
  if (!hypothesis.ended) hypothesis.tokens.push_back(drawing.next);
  return !hypothesis.ended && std::ssize(hypothesis.tokens) < drawing.input->longest;
}

// Returns the samples of all inputs before the first token. The first step reads each input once.
std::vector<DrawnSample> begin(std::span<const SearchInput> inputs,
                               const SampleOptions& options,
                               std::vector<std::vector<Hypothesis>>& result) {
  const Random random = Random(options.seed).child("generation");
  std::vector<DrawnSample> drawings;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Random of_input = random.child(static_cast<std::uint64_t>(inputs[i].index));
    for (std::size_t s = 0; s < result[i].size(); ++s)
      if (inputs[i].longest > 0)
        drawings.push_back({.result = &result[i][s],
                            .input = &inputs[i],
                            .random = of_input.child(s),
                            .row = static_cast<std::int64_t>(i),
                            .next = inputs[i].first});
  }
  return drawings;
}

}  // namespace

std::vector<std::vector<Hypothesis>> sample(const SearchStep& step,
                                            std::span<const SearchInput> inputs,
                                            const SampleOptions& options) {
  check_sampling(options.sampling);
  if (options.samples < 1)
    throw ConfigurationError("samples: expected at least 1, found {}", options.samples);
  std::vector<std::vector<Hypothesis>> result(
      inputs.size(), std::vector<Hypothesis>(static_cast<std::size_t>(options.samples)));
  std::vector<DrawnSample> drawings = begin(inputs, options, result);
  for (bool first = true; !drawings.empty(); first = false) {
    // In the first step all samples of an input share one row.
    std::vector<std::int64_t> tokens;
    std::vector<std::int64_t> rows;
    std::vector<std::size_t> row_of;
    for (const DrawnSample& drawing : drawings) {
      if (!first || rows.empty() || rows.back() != drawing.row) {
        tokens.push_back(drawing.next);
        rows.push_back(drawing.row);
      }
      row_of.push_back(rows.size() - 1);
    }
    const StepLogits logits(step, tokens, rows, options.vocabulary);
    std::vector<char> goes_on(drawings.size());
    for_each_row(drawings.size(), [&](std::size_t i) {
      goes_on[i] = draw_next(drawings[i], logits, row_of[i], options);
    });
    std::vector<DrawnSample> next;
    for (std::size_t i = 0; i < drawings.size(); ++i) {
      if (!goes_on[i]) continue;
      next.push_back(drawings[i]);
      next.back().row = static_cast<std::int64_t>(row_of[i]);
    }
    drawings = std::move(next);
  }
  return result;
}

}  // namespace longspan
