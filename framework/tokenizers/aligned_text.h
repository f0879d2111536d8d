// A transformed text that is aligned with byte offsets in the original.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

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

}  // namespace longspan
