#include "framework/decoding/mask_predict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/core/error.h"

namespace longspan {
namespace {

struct Tried {
  MaskPredictRow row;
  std::vector<double> scores;        // of its tokens
  std::vector<std::int64_t> places;  // positions predicted next

  std::int64_t words() const { return std::ssize(scores); }
  double log_probability() const { return std::accumulate(scores.begin(), scores.end(), 0.0); }
};

// Returns the positions of the lowest scores; ties resolve to the earlier position.
std::vector<std::int64_t> weakest(const std::vector<double>& scores, std::int64_t count) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::int64_t i) { return scores[static_cast<std::size_t>(i)]; });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

std::vector<Tried> candidates_of(std::span<const MaskPredictInput> inputs,
                                 const MaskPredictOptions& options) {
  std::vector<Tried> candidates;
  for (std::size_t of = 0; of < inputs.size(); ++of)
    for (const std::int64_t words : inputs[of].lengths) {
      Tried& one = candidates.emplace_back();
      one.row.of = static_cast<std::int64_t>(of);
      one.row.tokens.assign(static_cast<std::size_t>(words), options.mask);
      if (options.first) one.row.tokens = options.first(one.row.of, words);
      one.row.tokens.push_back(options.end);
      one.scores.resize(static_cast<std::size_t>(words));
      one.places.resize(static_cast<std::size_t>(words));
      std::iota(one.places.begin(), one.places.end(), std::int64_t{0});
    }
  return candidates;
}

// Stores the predictions of a row. Returns whether a token changed.
bool take(Tried& one, std::size_t row, const ArgmaxTokens& predicted, std::int64_t index) {
  const std::int64_t first = static_cast<std::int64_t>(row) * predicted.ids.shape()[1];
  bool changes = false;
  for (const std::int64_t place : one.places) {
    const double score = predicted.log_probabilities.data<double>()[first + place];
    require(!std::isnan(score), "input {}: the logits of token {} are NaN", index, place);
    std::int64_t& word = one.row.tokens[static_cast<std::size_t>(place)];
    const std::int64_t now = predicted.ids.data<std::int64_t>()[first + place];
    changes = changes || word != now;
    word = now;
    one.scores[static_cast<std::size_t>(place)] = score;
  }
  return changes;
}

// Returns whether iteration c predicts the row again, and selects its positions.
bool is_next(Tried& one, std::int64_t c, const MaskPredictOptions& options) {
  if (c == 0 || !options.remask) return true;
  const std::int64_t count = masked_count(one.words(), options.iterations, c);
  one.places = weakest(one.scores, count);
  for (const std::int64_t place : one.places)
    one.row.tokens[static_cast<std::size_t>(place)] = options.mask;
  return count > 0;
}

std::vector<std::vector<Hypothesis>> ranked(std::vector<Tried>&& candidates,
                                            std::size_t inputs,
                                            std::int64_t n_best) {
  std::vector<std::vector<Hypothesis>> result(inputs);
  for (Tried& one : candidates) {
    one.row.tokens.pop_back();
    const double sum = one.log_probability();
    result[static_cast<std::size_t>(one.row.of)].push_back(
        {.tokens = std::move(one.row.tokens),
         .log_probability = sum,
         .score = sum / static_cast<double>(one.words()),
         .ended = true});
  }
  for (auto& of_input : result) {
    std::ranges::stable_sort(of_input, std::ranges::greater{}, &Hypothesis::score);
    if (std::ssize(of_input) > n_best) of_input.resize(static_cast<std::size_t>(n_best));
  }
  return result;
}

}  // namespace

std::int64_t masked_count(std::int64_t words, std::int64_t iterations, std::int64_t c) {
  return words * (iterations - c) / iterations;
}

std::vector<std::int64_t> candidate_lengths(std::int64_t length,
                                            std::int64_t beam,
                                            std::int64_t longest) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < beam; ++i) {
    std::int64_t tried = std::max<std::int64_t>(length + i - beam / 2, 1);
    if (longest > 0) tried = std::min(tried, longest);
    if (std::ranges::count(lengths, tried) == 0) lengths.push_back(tried);
  }
  return lengths;
}

std::vector<std::vector<Hypothesis>> mask_predict(const MaskedStep& step,
                                                  std::span<const MaskPredictInput> inputs,
                                                  const MaskPredictOptions& options) {
  if (options.iterations < 1)
    throw ConfigurationError("iterations: expected at least 1, found {}", options.iterations);
  std::vector<Tried> candidates = candidates_of(inputs, options);
  std::vector<Tried*> speaking;
  for (Tried& one : candidates) speaking.push_back(&one);
  for (std::int64_t c = 0; c < options.iterations; ++c) {
    std::erase_if(speaking, [&](Tried* one) { return !is_next(*one, c, options); });
    if (speaking.empty()) break;
    std::vector<MaskPredictRow> rows;
    for (const Tried* one : speaking) rows.push_back(one->row);
    const ArgmaxTokens predicted = step(rows);
    std::vector<Tried*> next;
    for (std::size_t i = 0; i < speaking.size(); ++i) {
      Tried& one = *speaking[i];
      const std::int64_t index = inputs[static_cast<std::size_t>(one.row.of)].index;
      // An unchanged prediction is a fixed point of full refinement.
      if (take(one, i, predicted, index) || options.remask) next.push_back(&one);
    }
    speaking = std::move(next);
  }
  return ranked(std::move(candidates), inputs.size(), options.n_best);
}

}  // namespace longspan
