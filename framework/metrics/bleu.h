// BLEU (Papineni et al. 2002) and chrF (Popovic 2015, 2017), as in sacreBLEU (Post 2018).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

// Adds to matches[n - 1], for n = 1 .. matches.size(), the n-grams shared with a reference. Each
// n-gram is clipped at its highest count in any reference. Items are indices of words or
// characters. Exact, in time linear in the lengths.
void add_ngram_matches(std::span<const std::uint32_t> hypothesis,
                       std::span<const std::vector<std::uint32_t>> references,
                       std::span<std::int64_t> matches);

// Returns the number of n-grams in a sequence of `items` items.
inline std::int64_t ngrams_in(std::size_t items, std::size_t n) {
  return items >= n ? static_cast<std::int64_t>(items - n + 1) : 0;
}

// sacreBLEU's tokenizers: 13a; none, which splits at white space; char, each non-space character;
// zh, 13a with each Chinese character separate.
enum class BleuTokens : std::uint8_t { thirteen_a, white_space, characters, chinese };

// Returns sacreBLEU's name: "13a", "none", "char" or "zh".
const char* name_of(BleuTokens tokens);

// Returns the words of each text, by numbers that the texts share.
std::vector<std::vector<std::uint32_t>> bleu_items(std::span<const std::string_view> texts,
                                                   BleuTokens tokens);

// Sums over the sentences of a corpus.
struct BleuSums {
  static constexpr std::size_t orders = 4;

  std::int64_t hypothesis_tokens = 0;
  std::int64_t reference_tokens = 0;              // of the reference closest in length
  std::array<std::int64_t, orders> matches = {};  // clipped n-grams shared with a reference
  std::array<std::int64_t, orders> totals = {};   // n-grams of the hypotheses

  // Adds a UTF-8 sentence with its references. If several references are equally close in length,
  // the shortest one counts. Throws Failure without a reference.
  void add(std::string_view hypothesis,
           std::span<const std::string> references,
           BleuTokens tokens = BleuTokens::thirteen_a);

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    f(self.hypothesis_tokens);
    f(self.reference_tokens);
    for (auto& count : self.matches) f(count);
    for (auto& count : self.totals) f(count);
  }
};

// Smoothing of a precision without a match (Chen and Cherry 2014). none: zero. floor: `value`
// matches. add_k: `value` more matches and n-grams of every order above 1. exponential: half the
// previous such order's value, starting at half a match (sacreBLEU's default).
enum class BleuSmoothing : std::uint8_t { none, floor, add_k, exponential };

struct BleuOptions {
  BleuSmoothing smoothing = BleuSmoothing::exponential;
  std::optional<double> value = {};  // default 0.1 for `floor`, 1 for `add_k`
  bool effective_order = false;      // exclude orders without n-grams: for sentences
};

struct Bleu {
  double score = 0;                                      // 0 .. 100
  std::array<double, BleuSums::orders> precisions = {};  // smoothed, 0 .. 100
  double brevity_penalty = 0;
};
Bleu bleu(const BleuSums& sums, const BleuOptions& options = {});

// Returns "bleu" and "bleu_brevity_penalty".
std::vector<MetricValue> metric_values(const BleuSums& sums, const BleuOptions& options = {});

// The tokenizers "13a" of mteval-v13a.pl and "zh", as in sacreBLEU (Post 2018).

// Returns a line's tokens separated by one space, equal to those of
// sacrebleu.tokenizers.tokenizer_13a.Tokenizer13a. Does not strip trailing white space first, which
// BLEU does.
std::string tokenize_13a(std::string_view line);

// Returns tokens equal to those of sacrebleu.tokenizers.tokenizer_zh.TokenizerZh. Each Chinese
// character and full-width punctuation mark is a token; 13a's rules without its markup split the
// rest. Japanese kana are not separated.
std::string tokenize_zh(std::string_view line);

// Sums over the sentences of a corpus for each order: n-grams of non-space characters, and for
// chrF++ of words.
class ChrfSums {
 public:
  static constexpr std::size_t letter_orders = 6;

  struct Order {
    std::int64_t hypothesis = 0;  // n-grams of sentences whose reference has any
    std::int64_t reference = 0;
    std::int64_t matches = 0;
  };

  // word_orders: 0 for chrF, 2 for chrF++. beta: weight of recall relative to precision.
  explicit ChrfSums(std::size_t word_orders = 0, double beta = 2)
      : orders_(letter_orders + word_orders), beta_(beta) {}

  // Adds a UTF-8 sentence with its references; the reference with the highest score counts. Throws
  // Failure without a reference.
  void add(std::string_view hypothesis, std::span<const std::string> references);

  double score() const;  // 0 .. 100
  std::size_t word_orders() const { return orders_.size() - letter_orders; }
  double beta() const { return beta_; }

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    for (auto& order : self.orders_) {
      f(order.hypothesis);
      f(order.reference);
      f(order.matches);
    }
  }

 private:
  std::vector<Order> orders_;
  double beta_;
};

// Returns "chrf", or with words "chrf++".
std::vector<MetricValue> metric_values(const ChrfSums& sums);

}  // namespace longspan
