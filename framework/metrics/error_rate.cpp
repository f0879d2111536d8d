#include "framework/metrics/error_rate.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/metrics/text.h"

namespace longspan {

Edits edits_between(const std::vector<std::string_view>& reference,
                    const std::vector<std::string_view>& hypothesis) {
  WordNumbers numbers;
  const std::vector<std::uint32_t> from = numbers.of(reference), to = numbers.of(hypothesis);
  // An edit costs `edit` and a correct token -1, so the minimum cost encodes both counts.
  constexpr std::int64_t edit = std::int64_t{1} << 32;
  std::vector<std::int64_t> costs(to.size() + 1);  // alignment costs to each prefix of `to`
  for (std::size_t j = 0; j < costs.size(); ++j) costs[j] = static_cast<std::int64_t>(j) * edit;
  for (const std::uint32_t token : from) {
    std::int64_t diagonal = costs[0];
    costs[0] += edit;
    for (std::size_t j = 1; j < costs.size(); ++j) {
      const std::int64_t replaced = diagonal + (token == to[j - 1] ? -1 : edit);
      diagonal = costs[j];
      costs[j] = std::min({replaced, costs[j] + edit, costs[j - 1] + edit});
    }
  }
  const std::int64_t count = (costs.back() + edit - 1) / edit;
  Edits edits;
  edits.correct = count * edit - costs.back();
  edits.substitutions = std::ssize(from) + std::ssize(to) - 2 * edits.correct - count;
  edits.deletions = std::ssize(from) - edits.correct - edits.substitutions;
  edits.insertions = std::ssize(to) - edits.correct - edits.substitutions;
  return edits;
}

void ErrorRate::add(const std::vector<std::string_view>& hypothesis,
                    std::span<const std::vector<std::string_view>> references) {
  require(!references.empty(), "an error rate requires a reference for every sequence");
  Edits best;
  std::int64_t length = -1;
  for (const auto& reference : references) {
    const Edits edits = edits_between(reference, hypothesis);
    if (length >= 0 && edits.count() >= best.count()) continue;
    best = edits;
    length = std::ssize(reference);
  }
  substitutions += best.substitutions;
  deletions += best.deletions;
  insertions += best.insertions;
  reference_tokens += length;
  ++sequences;
  wrong_sequences += best.count() > 0 ? 1 : 0;
}

void ErrorRate::add(std::string_view hypothesis, std::span<const std::string> references) {
  std::vector<std::vector<std::string_view>> words;
  for (const std::string& reference : references) words.push_back(words_of(reference));
  add(words_of(hypothesis), words);
}

double ErrorRate::rate() const {
  return percent(static_cast<double>(substitutions + deletions + insertions),
                 static_cast<double>(std::max<std::int64_t>(reference_tokens, 1)));
}

std::vector<MetricValue> metric_values(const ErrorRate& errors, const std::string& name) {
  return {
      {name + "_error_rate", errors.rate(), "percent"},
      {name + "_substitutions", static_cast<double>(errors.substitutions), "tokens"},
      {name + "_deletions", static_cast<double>(errors.deletions), "tokens"},
      {name + "_insertions", static_cast<double>(errors.insertions), "tokens"},
      {"sequence_error_rate",
       percent(static_cast<double>(errors.wrong_sequences), static_cast<double>(errors.sequences)),
       "percent"}};
}

}  // namespace longspan
