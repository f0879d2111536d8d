// The n-grams that a hypothesis shares with references: what BLEU and chrF count.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longspan {

// Adds to matches[n - 1], for n = 1 .. matches.size(), the n-grams of the hypothesis that a
// reference has too, each counted at most as often as in the reference that has it most often.
// Items are words or characters as numbers. Exact; takes time linear in the lengths.
void add_ngram_matches(std::span<const std::uint32_t> hypothesis,
                       std::span<const std::vector<std::uint32_t>> references,
                       std::span<std::int64_t> matches);

// How many n-grams a sequence of so many items has.
inline std::int64_t ngrams_in(std::size_t items, std::size_t n) {
  return items >= n ? static_cast<std::int64_t>(items - n + 1) : 0;
}

}  // namespace longspan
