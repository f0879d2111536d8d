// Tokens that are found in a text before anything else is done with it.
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
  bool is_special = false;      // stands for no text
  bool is_single_word = false;  // not within a word
  bool strips_left = false;     // takes the white space before it
  bool strips_right = false;    // and behind it
  bool is_normalized = false;   // is looked for in the normalised text, as it is normalised itself
};

// Of the member "added_tokens" of a file. Throws DataError.
std::vector<AddedToken> read_added_tokens(const JsonCursor& json);

// Finds some of them in a text.
class AddedTokenFinder {
 public:
  // Those that are normalised, or those that are not.
  AddedTokenFinder(const std::vector<AddedToken>& tokens,
                   bool normalized,
                   const TextNormalizer& normalizer);

  bool is_empty() const { return tokens_.empty(); }
  // Calls f(bytes of the piece from, to, token) for the parts of a text, one after another; the
  // token is null of what lies between them. The leftmost and longest is taken. No part is empty.
  using Listener = std::function<void(std::size_t, std::size_t, const AddedToken*)>;
  void cut(std::string_view text, const Listener& listener) const;

 private:
  // The longest that begins at this byte; -1 where there is none.
  std::int32_t longest_at(std::string_view text, std::size_t at, std::size_t& bytes) const;

  std::vector<AddedToken> tokens_;
  PrefixTree tree_;  // to places in tokens_
  std::array<bool, 256> begins_{};
};

}  // namespace longspan
