#include "framework/metrics/ngram_matches.h"

#include <algorithm>
#include <bit>

namespace longspan {
namespace {

constexpr std::uint32_t unknown = ~std::uint32_t{0};

// Numbers keys from 0 by first occurrence. Uses open addressing: a sentence needs a dozen small
// tables, and std::unordered_map would allocate each entry.
class NumberTable {
 public:
  // Clears the table, with capacity for `most` keys.
  void clear(std::size_t most) {
    const std::size_t size = std::bit_ceil(2 * most + 2);
    keys_.assign(size, empty);
    numbers_.resize(size);
    count_ = 0;
  }
  std::size_t count() const { return count_; }

  std::uint32_t number(std::uint64_t key) {
    const std::size_t place = slot_of(key);
    if (keys_[place] == empty) {
      keys_[place] = key;
      numbers_[place] = count_++;
    }
    return numbers_[place];
  }
  std::uint32_t find(std::uint64_t key) const {
    const std::size_t place = slot_of(key);
    return keys_[place] == empty ? unknown : numbers_[place];
  }

 private:
  // Not a key: numbers are below `unknown`.
  static constexpr std::uint64_t empty = ~std::uint64_t{0};

  std::size_t slot_of(std::uint64_t key) const {
    const std::size_t mask = keys_.size() - 1;
    const std::uint64_t mixed = (key ^ (key >> 32)) * 0x9E3779B97F4A7C15u;
    std::size_t place = static_cast<std::size_t>(mixed >> 32) & mask;
    while (keys_[place] != empty && keys_[place] != key) place = (place + 1) & mask;
    return place;
  }

  std::vector<std::uint64_t> keys_;
  std::vector<std::uint32_t> numbers_;
  std::uint32_t count_ = 0;
};

// An n-gram is identified by the number of its first n - 1 items and its last item.
std::uint64_t key_of(std::uint32_t first, std::uint32_t last) {
  return (std::uint64_t{first} << 32) | last;
}

}  // namespace

void add_ngram_matches(std::span<const std::uint32_t> hypothesis,
                       std::span<const std::vector<std::uint32_t>> references,
                       std::span<std::int64_t> matches) {
  NumberTable table;
  // Number of the n-gram that begins at each item.
  std::vector<std::uint32_t> own(hypothesis.size(), 0);
  std::vector<std::vector<std::uint32_t>> theirs;
  for (const auto& reference : references) theirs.emplace_back(reference.size(), 0);
  std::vector<std::int64_t> counts, most, here;
  for (std::size_t n = 1; n <= matches.size(); ++n) {
    if (hypothesis.size() < n) return;
    table.clear(hypothesis.size());
    counts.assign(hypothesis.size(), 0);
    for (std::size_t i = 0; i + n <= hypothesis.size(); ++i) {
      own[i] = table.number(key_of(own[i], hypothesis[i + n - 1]));
      ++counts[own[i]];
    }
    most.assign(table.count(), 0);
    for (std::size_t r = 0; r < references.size(); ++r) {
      here.assign(table.count(), 0);
      for (std::size_t i = 0; i + n <= references[r].size(); ++i) {
        std::uint32_t& number = theirs[r][i];
        if (number == unknown) continue;  // longer n-grams are then missing too
        number = table.find(key_of(number, references[r][i + n - 1]));
        if (number != unknown) ++here[number];
      }
      for (std::size_t k = 0; k < most.size(); ++k) most[k] = std::max(most[k], here[k]);
    }
    for (std::size_t k = 0; k < most.size(); ++k) matches[n - 1] += std::min(counts[k], most[k]);
  }
}

}  // namespace longspan
