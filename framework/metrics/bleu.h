// BLEU of a corpus (Papineni et al. 2002), as sacreBLEU counts it (Post 2018).
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

// sacreBLEU's tokenizers: 13a; none, words between white space; char, each character but white
// space; zh, 13a with each Chinese character apart.
enum class BleuTokens : std::uint8_t { thirteen_a, white_space, characters, chinese };

// sacreBLEU's name: "13a", "none", "char" or "zh".
const char* name_of(BleuTokens tokens);

// The sums over the sentences of a corpus.
struct BleuSums {
  static constexpr std::size_t orders = 4;

  std::int64_t hypothesis_tokens = 0;
  std::int64_t reference_tokens = 0;              // of the reference closest in length
  std::array<std::int64_t, orders> matches = {};  // n-grams that a reference has too, clipped
  std::array<std::int64_t, orders> totals = {};   // n-grams of the hypotheses

  // A sentence with its references, of which there is at least one; UTF-8. Of references that are
  // equally close in length the shorter one counts. Throws Failure without a reference.
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

// What stands in for a precision without a match (Chen and Cherry 2014): nothing; `value` matches;
// `value` more matches and n-grams of every order above 1; or half of that of the order before
// that had none, the first one being half a match (sacreBLEU's usual one).
enum class BleuSmoothing : std::uint8_t { none, floor, add_k, exponential };

struct BleuOptions {
  BleuSmoothing smoothing = BleuSmoothing::exponential;
  std::optional<double> value = {};  // of `floor`, else 0.1, and of `add_k`, else 1
  bool effective_order = false;      // leave out orders for which there is no n-gram: for sentences
};

struct Bleu {
  double score = 0;                                      // 0 .. 100
  std::array<double, BleuSums::orders> precisions = {};  // smoothed, 0 .. 100
  double brevity_penalty = 0;
};
Bleu bleu(const BleuSums& sums, const BleuOptions& options = {});

// "bleu", "bleu_brevity_penalty".
std::vector<MetricValue> metric_values(const BleuSums& sums, const BleuOptions& options = {});

}  // namespace longspan
