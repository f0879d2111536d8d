// How often each word of a text is there.
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

// Memory does not grow without end: before the words take more than `most` bytes, the half of them
// that was met least often so far is dropped, with those that were met as often. What is left then
// depends on the order of the calls, and on nothing else. A word that is longer than that is kept
// alone.
class WordCounts {
 public:
  static constexpr std::size_t usual_most = std::size_t{1} << 29;
  // What a word takes beside its text.
  static constexpr std::size_t bytes_of_entry = 80;

  explicit WordCounts(std::size_t most = usual_most) : most_(most) {}
  void add(std::string_view word, std::int64_t count = 1);
  void add(const WordCounts& other);
  std::size_t size() const { return counts_.size(); }
  std::size_t bytes() const { return bytes_; }
  // The most frequent first, those of one count by their bytes.
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
