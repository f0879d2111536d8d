#include "framework/tokenizers/word_counts.h"

#include <xxhash.h>

#include <algorithm>

namespace longspan {

std::size_t WordCounts::Hash::operator()(std::string_view text) const {
  return XXH3_64bits(text.data(), text.size());
}

void WordCounts::add(std::string_view word, std::int64_t count) {
  const auto found = counts_.find(word);
  if (found != counts_.end()) {
    found->second += count;
    return;
  }
  if (counts_.size() >= most_) drop_rare();
  counts_.emplace(word, count);
}

void WordCounts::drop_rare() {
  std::vector<std::int64_t> counts;
  counts.reserve(counts_.size());
  for (const auto& [word, count] : counts_) counts.push_back(count);
  const auto middle = counts.begin() + std::ssize(counts) / 2;
  std::ranges::nth_element(counts, middle);
  std::erase_if(counts_, [most = *middle](const auto& entry) { return entry.second <= most; });
}

void WordCounts::add(const WordCounts& other) {
  // In an order of their own: which words are dropped depends on it.
  if (counts_.size() + other.size() > most_) {
    for (const CountedWord& word : other.sorted()) add(word.text, word.count);
    return;
  }
  for (const auto& [word, count] : other.counts_) add(word, count);
}

std::vector<CountedWord> WordCounts::sorted() const {
  std::vector<CountedWord> words;
  words.reserve(counts_.size());
  for (const auto& [text, count] : counts_) words.push_back({text, count});
  std::ranges::sort(words, [](const CountedWord& a, const CountedWord& b) {
    return a.count != b.count ? a.count > b.count : a.text < b.text;
  });
  return words;
}

}  // namespace longspan
