#include "framework/metrics/chrf.h"

#include "framework/core/error.h"
#include "framework/metrics/ngram_matches.h"
#include "framework/metrics/text.h"

namespace longspan {
namespace {

using Items = std::vector<std::uint32_t>;
using Orders = std::vector<ChrfSums::Order>;

// Python's string.punctuation: printable ASCII other than letters, digits and space.
bool is_punctuation(char letter) {
  return (letter >= '!' && letter <= '/') || (letter >= ':' && letter <= '@') ||
         (letter >= '[' && letter <= '`') || (letter >= '{' && letter <= '~');
}

// Splits words, and from each a trailing punctuation mark, else a leading one.
std::vector<std::string_view> words_and_marks(std::string_view text) {
  std::vector<std::string_view> result;
  for (const std::string_view word : words_of(text)) {
    const std::size_t last = word.size() - 1;
    std::size_t cut = 0;
    if (last > 0) cut = is_punctuation(word[last]) ? last : (is_punctuation(word[0]) ? 1 : 0);
    if (cut > 0) result.push_back(word.substr(0, cut));
    result.push_back(word.substr(cut));
  }
  return result;
}

void count(const Items& hypothesis, const Items& reference, std::span<ChrfSums::Order> orders) {
  std::vector<std::int64_t> matches(orders.size(), 0);
  add_ngram_matches(hypothesis, {&reference, 1}, matches);
  for (std::size_t n = 1; n <= orders.size(); ++n) {
    const std::int64_t theirs = ngrams_in(reference.size(), n);
    orders[n - 1] = {.hypothesis = theirs > 0 ? ngrams_in(hypothesis.size(), n) : 0,
                     .reference = theirs,
                     .matches = matches[n - 1]};
  }
}

// Returns the F-score of mean precision and mean recall over the orders that both sides have.
double score_of(const Orders& orders, double beta) {
  double precision = 0, recall = 0, used = 0;
  for (const ChrfSums::Order& order : orders) {
    if (order.hypothesis == 0 || order.reference == 0) continue;
    const auto matches = static_cast<double>(order.matches);
    precision += matches / static_cast<double>(order.hypothesis);
    recall += matches / static_cast<double>(order.reference);
    ++used;
  }
  if (precision + recall == 0) return 0;
  precision /= used;
  recall /= used;
  const double factor = beta * beta;
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

}  // namespace

void ChrfSums::add(std::string_view hypothesis, std::span<const std::string> references) {
  require(!references.empty(), "chrF requires a reference for every sentence");
  WordNumbers numbers;
  const bool with_words = word_orders() > 0;
  const Items letters = letters_of(hypothesis);
  const Items words = with_words ? numbers.of(words_and_marks(hypothesis)) : Items();
  Orders best;
  double best_score = -1;
  for (const std::string& reference : references) {
    Orders here(orders_.size());
    const std::span<Order> all = here;
    count(letters, letters_of(reference), all.first(letter_orders));
    if (with_words)
      count(words, numbers.of(words_and_marks(reference)), all.subspan(letter_orders));
    const double score = score_of(here, beta_);
    if (score <= best_score) continue;
    best_score = score;
    best = std::move(here);
  }
  for (std::size_t i = 0; i < orders_.size(); ++i) {
    orders_[i].hypothesis += best[i].hypothesis;
    orders_[i].reference += best[i].reference;
    orders_[i].matches += best[i].matches;
  }
}

double ChrfSums::score() const { return score_of(orders_, beta_); }

std::vector<MetricValue> metric_values(const ChrfSums& sums) {
  return {{"chrf" + std::string(sums.word_orders(), '+'), sums.score(), "percent"}};
}

}  // namespace longspan
