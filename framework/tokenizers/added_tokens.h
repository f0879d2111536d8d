// Added tokens, which are matched before normalization and pre-tokenization.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tokenizers/aligned_text.h"
#include "framework/tokenizers/normalizers.h"
#include "framework/tokenizers/token_table.h"

namespace longspan {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool is_special = false;      // denotes no text
  bool is_single_word = false;  // matches only complete words
  bool strips_left = false;     // also matches preceding white space
  bool strips_right = false;    // also matches following white space
  bool is_normalized = false;   // its normalized form is matched in the normalized text
};

// Reads the member "added_tokens" of a file. Throws DataError.
std::vector<AddedToken> read_added_tokens(const JsonCursor& json);

// Finds a subset of the added tokens in a text.
class AddedTokenFinder {
 public:
  // Selects the normalized tokens, or the others.
  AddedTokenFinder(const std::vector<AddedToken>& tokens,
                   bool normalized,
                   const TextNormalizer& normalizer);

  bool is_empty() const { return tokens_.empty(); }
  // Calls f(begin, end, token) for consecutive parts of a text, in bytes; `token` is null between
  // matches. Matches are leftmost-longest. No part is empty.
  using Listener = std::function<void(std::size_t, std::size_t, const AddedToken*)>;
  void cut(std::string_view text, const Listener& listener) const;

 private:
  // Returns the longest match at this byte, or -1.
  std::int32_t longest_at(std::string_view text, std::size_t at, std::size_t& bytes) const;

  std::vector<AddedToken> tokens_;
  PrefixTree tree_;  // indices into tokens_
  std::array<bool, 256> begins_{};
};

}  // namespace longspan
