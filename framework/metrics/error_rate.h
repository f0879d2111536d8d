// Error rates of sequences of tokens: words, phonemes, characters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

// How a reference becomes a hypothesis by the fewest edits; of several ways one that leaves the
// most tokens as they are.
struct Edits {
  std::int64_t substitutions = 0;
  std::int64_t deletions = 0;   // tokens of the reference that the hypothesis lacks
  std::int64_t insertions = 0;  // tokens of the hypothesis that the reference lacks
  std::int64_t correct = 0;

  std::int64_t count() const { return substitutions + deletions + insertions; }
};
// Takes time and memory of length x length and length.
Edits edits_between(const std::vector<std::string_view>& reference,
                    const std::vector<std::string_view>& hypothesis);

struct ErrorRate {
  std::int64_t substitutions = 0;
  std::int64_t deletions = 0;
  std::int64_t insertions = 0;
  std::int64_t reference_tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t wrong_sequences = 0;  // with an edit

  // Of several references, such as the pronunciations of a word, the first of those that need the
  // fewest edits counts. Throws Failure without a reference.
  void add(const std::vector<std::string_view>& hypothesis,
           std::span<const std::vector<std::string_view>> references);
  // The same of texts, whose tokens stand between white space.
  void add(std::string_view hypothesis, std::span<const std::string> references);

  // Edits for 100 tokens of the references, which may be more than 100. Where the references have
  // no token, as if they had one.
  double rate() const;

  template <typename Self, typename F>
  static void each_sum(Self& self, const F& f) {
    f(self.substitutions);
    f(self.deletions);
    f(self.insertions);
    f(self.reference_tokens);
    f(self.sequences);
    f(self.wrong_sequences);
  }
};

// "NAME_error_rate", "NAME_substitutions", "NAME_deletions", "NAME_insertions" and
// "sequence_error_rate"; the name is "word" or "phoneme".
std::vector<MetricValue> metric_values(const ErrorRate& errors, const std::string& name);

}  // namespace longspan
