#include "framework/metrics/bleu.h"

#include <cmath>
#include <cstdlib>

#include "framework/core/error.h"
#include "framework/metrics/ngram_matches.h"
#include "framework/metrics/text.h"
#include "framework/metrics/thirteen_a.h"

namespace longspan {
namespace {

using Items = std::vector<std::uint32_t>;

std::string tokenized(std::string_view sentence, BleuTokens tokens) {
  const std::string_view text = without_trailing_space(sentence);
  if (tokens == BleuTokens::thirteen_a) return tokenize_13a(text);
  return tokens == BleuTokens::chinese ? tokenize_zh(text) : std::string(text);
}

// Maps the tokens of each text to shared indices.
std::vector<Items> items_of(std::span<const std::string_view> texts, BleuTokens tokens) {
  std::vector<Items> items;
  if (tokens == BleuTokens::characters) {
    for (const std::string_view text : texts) items.push_back(letters_of(text));
    return items;
  }
  std::vector<std::string> split;  // owns the text that the words refer to
  for (const std::string_view text : texts) split.push_back(tokenized(text, tokens));
  WordNumbers numbers;
  for (const std::string& text : split) items.push_back(numbers.of(words_of(text)));
  return items;
}

// sacreBLEU's replacement of log(0).
double floored_log(double x) { return x == 0 ? -9999999999. : std::log(x); }

}  // namespace

const char* name_of(BleuTokens tokens) {
  switch (tokens) {
    case BleuTokens::thirteen_a:
      return "13a";
    case BleuTokens::white_space:
      return "none";
    case BleuTokens::characters:
      return "char";
    case BleuTokens::chinese:
      return "zh";
  }
  return "";
}

void BleuSums::add(std::string_view hypothesis,
                   std::span<const std::string> references,
                   BleuTokens tokens) {
  require(!references.empty(), "BLEU requires a reference for every sentence");
  std::vector<std::string_view> texts = {hypothesis};
  texts.insert(texts.end(), references.begin(), references.end());
  const std::vector<Items> items = items_of(texts, tokens);
  const Items& own = items.front();
  const std::span<const Items> theirs = std::span(items).subspan(1);

  const std::int64_t length = std::ssize(own);
  std::int64_t closest = std::ssize(theirs.front());
  for (const auto& reference : theirs) {
    const std::int64_t candidate = std::ssize(reference);
    const std::int64_t difference = std::abs(candidate - length), best = std::abs(closest - length);
    if (difference < best || (difference == best && candidate < closest)) closest = candidate;
  }
  hypothesis_tokens += length;
  reference_tokens += closest;
  for (std::size_t n = 1; n <= orders; ++n) totals[n - 1] += ngrams_in(own.size(), n);
  add_ngram_matches(own, theirs, matches);
}

Bleu bleu(const BleuSums& sums, const BleuOptions& options) {
  constexpr auto orders = BleuSums::orders;
  const auto length = static_cast<double>(sums.hypothesis_tokens);
  const auto reference = static_cast<double>(sums.reference_tokens);
  Bleu result;
  result.brevity_penalty = 1;
  if (length < reference)
    result.brevity_penalty = length > 0 ? std::exp(1 - reference / length) : 0;
  bool any = false;
  for (const std::int64_t count : sums.matches) any = any || count > 0;
  if (!any) return result;
  const bool adds = options.smoothing == BleuSmoothing::add_k;
  const double value = options.value.value_or(adds ? 1 : 0.1);
  double halvings = 1;
  std::size_t used = orders;
  for (std::size_t n = 0; n < orders; ++n) {
    const double more = adds && n > 0 ? value : 0;
    const double match = static_cast<double>(sums.matches[n]) + more;
    const double total = static_cast<double>(sums.totals[n]) + more;
    if (total == 0) break;
    if (options.effective_order) used = n + 1;
    if (match > 0) {
      result.precisions[n] = 100. * match / total;
    } else if (options.smoothing == BleuSmoothing::exponential) {
      halvings *= 2;
      result.precisions[n] = 100. / (halvings * total);
    } else if (options.smoothing == BleuSmoothing::floor) {
      result.precisions[n] = 100. * value / total;
    }
  }
  double logarithms = 0;
  for (std::size_t n = 0; n < used; ++n) logarithms += floored_log(result.precisions[n]);
  result.score = result.brevity_penalty * std::exp(logarithms / static_cast<double>(used));
  return result;
}

std::vector<MetricValue> metric_values(const BleuSums& sums, const BleuOptions& options) {
  const Bleu found = bleu(sums, options);
  return {{"bleu", found.score, "percent"}, {"bleu_brevity_penalty", found.brevity_penalty, ""}};
}

}  // namespace longspan
