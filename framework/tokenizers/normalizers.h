// Texts aligned with their original, and the steps before the split into words: normalizers (normal
// forms, lowercase, replacements) and added tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/tokenizers/json_place.h"
#include "framework/tokenizers/token_table.h"

namespace longspan {

// A transformed text that is aligned with byte offsets in the original.

// A part of a text. `ends` maps each byte to the end of its source, in bytes of the original from
// `base` on; null: the part is unchanged.
struct TextPiece {
  std::string_view text;
  std::int64_t begin = 0;  // in bytes of the original
  const std::uint32_t* ends = nullptr;
  std::int64_t base = 0;

  // Returns the end of the first n bytes in the original.
  std::int64_t end_of(std::size_t n) const {
    if (n == 0) return begin;
    return ends == nullptr ? begin + static_cast<std::int64_t>(n) : base + ends[n - 1];
  }
  TextPiece part(std::size_t from, std::size_t to) const {
    return {
        text.substr(from, to - from), end_of(from), ends == nullptr ? nullptr : ends + from, base};
  }
};

// Owns the text of a TextPiece.
class AlignedText {
 public:
  explicit AlignedText(const TextPiece& piece);

  std::string_view text() const { return text_; }
  TextPiece piece() const { return {text_, begin_, ends_.empty() ? nullptr : ends_.data(), base_}; }

 private:
  friend class AlignedWriter;

  std::string text_;
  std::int64_t begin_ = 0;
  std::int64_t base_ = 0;
  std::vector<std::uint32_t> ends_;
};

// Builds a transformed text from its beginning to its end.
class AlignedWriter {
 public:
  // Throws DataError for a text of 4 GiB and more.
  explicit AlignedWriter(const TextPiece& from);
  // Copies the bytes [begin, end).
  void copy_span(std::size_t begin, std::size_t end);
  // Writes text that replaces the unconsumed bytes before byte `end`.
  void put(std::string_view text, std::size_t end);
  AlignedText take() &&;

 private:
  std::uint32_t place(std::size_t bytes) const {
    return static_cast<std::uint32_t>(from_.end_of(bytes) - to_.base_);
  }

  TextPiece from_;
  AlignedText to_;
};

// Maps valid UTF-8 to valid UTF-8. Thread-safe.
using TextNormalizer = std::function<AlignedText(const TextPiece&)>;

// Reads the member "normalizer" of a file. Returns empty for null. Throws DataError for an
// unsupported type.
TextNormalizer read_normalizer(const JsonCursor& json);

// Unicode normal forms (UAX 15) of the older Unicode version of the package `tokenizers`
// (unicode_tables.h).
struct NormalForm {
  bool composes = false;    // C, not D
  bool compatible = false;  // K
};
AlignedText in_normal_form(const TextPiece& piece, NormalForm form);

// Reads SentencePiece's table of replacements ("precompiled_charsmap"): a double-array trie of
// strings and their replacements. Throws DataError for an invalid table.
TextNormalizer read_precompiled(const JsonCursor& json);

// Added tokens, which are matched before normalization and pre-tokenization.

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
