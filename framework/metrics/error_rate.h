// Error rates of token sequences: words, phonemes, characters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/metrics/metric_value.h"

namespace longspan {

// Levenshtein edits from a reference to a hypothesis; among minimal alignments one with the most
// correct tokens.
struct Edits {
  std::int64_t substitutions = 0;
  std::int64_t deletions = 0;   // reference tokens that the hypothesis lacks
  std::int64_t insertions = 0;  // hypothesis tokens that the reference lacks
  std::int64_t correct = 0;

  std::int64_t count() const { return substitutions + deletions + insertions; }
};
// Takes O(length x length) time and O(length) memory.
Edits edits_between(const std::vector<std::string_view>& reference,
                    const std::vector<std::string_view>& hypothesis);

struct ErrorRate {
  std::int64_t substitutions = 0;
  std::int64_t deletions = 0;
  std::int64_t insertions = 0;
  std::int64_t reference_tokens = 0;
  std::int64_t sequences = 0;
  std::int64_t wrong_sequences = 0;  // with at least one edit

  // With several references, such as the pronunciations of a word, counts the first one with the
  // fewest edits. Throws Failure without a reference.
  void add(const std::vector<std::string_view>& hypothesis,
           std::span<const std::vector<std::string_view>> references);
  // Splits strings into tokens at white space.
  void add(std::string_view hypothesis, std::span<const std::string> references);

  // Returns edits per 100 reference tokens, which may exceed 100. Without reference tokens it
  // divides by one.
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

// Returns "NAME_error_rate", "NAME_substitutions", "NAME_deletions", "NAME_insertions" and
// "sequence_error_rate"; the name is "word" or "phoneme".
std::vector<MetricValue> metric_values(const ErrorRate& errors, const std::string& name);

}  // namespace longspan
