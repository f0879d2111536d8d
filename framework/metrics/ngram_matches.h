// Clipped n-gram matches of a hypothesis with references, for BLEU and chrF.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace longspan
