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
  const std::size_t bytes = word.size() + bytes_of_entry;
  while (bytes_ + bytes > most_ && !counts_.empty()) drop_rare();
  counts_.emplace(word, count);
  bytes_ += bytes;
}

void WordCounts::drop_rare() {
  std::vector<std::int64_t> counts;
  counts.reserve(counts_.size());
  for (const auto& [word, count] : counts_) counts.push_back(count);
  const auto middle = counts.begin() + std::ssize(counts) / 2;
  std::ranges::nth_element(counts, middle);
  std::erase_if(counts_, [this, most = *middle](const auto& entry) {
    if (entry.second > most) return false;
    bytes_ -= entry.first.size() + bytes_of_entry;
    return true;
  });
}

void WordCounts::add(const WordCounts& other) {
  // Adds in a fixed order, which determines the words that are dropped.
  if (bytes_ + other.bytes_ > most_) {
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
