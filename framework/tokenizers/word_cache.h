// A cache of encoded words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tokenizers/word_model.h"

namespace longspan {

// For a single thread. It is cleared when full, at some tens of megabytes.
class WordCache {
 public:
  static constexpr std::size_t max_word_length = 64;  // bytes

  WordCache();
  // Returns the tokens of a word of at most max_word_length bytes, encoding it on a miss. Valid
  // until the next call.
  std::span<const WordToken> encode(std::string_view word, const WordModel& model);

 private:
  struct Slot {
    std::uint64_t hash = 0;  // 0: free
    std::uint32_t text = 0;
    std::uint32_t tokens = 0;
    std::uint16_t bytes = 0;
    std::uint16_t count = 0;
  };

  std::vector<Slot> slots_;
  std::string texts_;
  std::vector<WordToken> tokens_;
  std::size_t words_ = 0;
};

}  // namespace longspan
