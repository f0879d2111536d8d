#include "framework/metrics/sentence_score.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "framework/core/error.h"
#include "framework/metrics/error_rate.h"
#include "framework/metrics/text.h"

namespace longspan {
namespace {

using SentenceItems = std::vector<std::uint32_t>;

double accuracy_of(const Edits& edits, std::size_t reference) {
  return 1 - static_cast<double>(edits.count()) /
                 static_cast<double>(std::max<std::size_t>(reference, 1));
}

// Returns the edits between token ids, as words of their bytes.
Edits edits_of_ids(std::span<const std::int64_t> reference,
                   std::span<const std::int64_t> hypothesis) {
  const auto words = [](std::span<const std::int64_t> ids) {
    std::vector<std::string_view> result;
    for (const std::int64_t& id : ids)
      result.emplace_back(reinterpret_cast<const char*>(&id), sizeof id);
    return result;
  };
  return edits_between(words(reference), words(hypothesis));
}

}  // namespace

double sentence_bleu(std::span<const std::uint32_t> hypothesis,
                     std::span<const std::uint32_t> reference,
                     std::size_t orders) {
  if (hypothesis.empty()) return 0;
  const std::vector<SentenceItems> references = {SentenceItems(reference.begin(), reference.end())};
  std::vector<std::int64_t> matches(orders, 0);
  add_ngram_matches(hypothesis, references, matches);
  double product = 1;
  for (std::size_t n = 1; n <= orders; ++n) {
    const double more = n > 1 ? 1 : 0;
    product *= (static_cast<double>(matches[n - 1]) + more) /
               (static_cast<double>(ngrams_in(hypothesis.size(), n)) + more);
  }
  const double ratio =
      static_cast<double>(reference.size()) / static_cast<double>(hypothesis.size());
  return std::min(1.0, std::exp(1 - ratio)) * std::pow(product, 1 / static_cast<double>(orders));
}

double sentence_score(SentenceMetric metric,
                      std::string_view hypothesis,
                      std::string_view reference,
                      BleuTokens tokens) {
  if (metric == SentenceMetric::exact_match) return hypothesis == reference ? 1 : 0;
  if (metric == SentenceMetric::error_rate) {
    const auto words = words_of(reference);
    return accuracy_of(edits_between(words, words_of(hypothesis)), words.size());
  }
  if (metric == SentenceMetric::chrf) {
    ChrfSums sums;
    const std::string references[] = {std::string(reference)};
    sums.add(hypothesis, references);
    return sums.score() / 100;
  }
  const std::string_view texts[] = {hypothesis, reference};
  const std::vector<SentenceItems> items = bleu_items(texts, tokens);
  return sentence_bleu(items[0], items[1]);
}

double sentence_score(SentenceMetric metric,
                      std::span<const std::int64_t> hypothesis,
                      std::span<const std::int64_t> reference) {
  require(metric != SentenceMetric::chrf, "chrF requires text, found token ids");
  if (metric == SentenceMetric::exact_match) return std::ranges::equal(hypothesis, reference);
  if (metric == SentenceMetric::error_rate)
    return accuracy_of(edits_of_ids(reference, hypothesis), reference.size());
  const auto items = [](std::span<const std::int64_t> ids) {
    return SentenceItems(ids.begin(), ids.end());
  };
  return sentence_bleu(items(hypothesis), items(reference));
}

}  // namespace longspan
