// Word frequencies of a corpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace longspan {

struct CountedWord {
  std::string text;
  std::int64_t count = 0;
};

// Bounded memory: before the words exceed `most` bytes, the less frequent half is dropped,
// including ties. The result then depends on the order of the calls, and on nothing else. A single
// word that exceeds the bound is kept alone.
class WordCounts {
 public:
  static constexpr std::size_t usual_max = std::size_t{1} << 29;
  // Bytes of a word's entry, excluding its text.
  static constexpr std::size_t bytes_of_entry = 80;

  explicit WordCounts(std::size_t most = usual_max) : most_(most) {}
  void add(std::string_view word, std::int64_t count = 1);
  void add(const WordCounts& other);
  std::size_t size() const { return counts_.size(); }
  std::size_t bytes() const { return bytes_; }
  // Sorted by descending count, then by bytes.
  std::vector<CountedWord> sorted() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const;
  };

  void drop_rare();

  std::size_t most_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

}  // namespace longspan
