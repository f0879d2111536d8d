// A text that was changed, with the places in the original that it stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// A part of a text. `ends` has for each byte the end, in bytes of the original from `base` on, of
// what it stands for; it is null where the part is the original, unchanged.
struct TextPiece {
  std::string_view text;
  std::int64_t begin = 0;  // in bytes of the original
  const std::uint32_t* ends = nullptr;
  std::int64_t base = 0;

  // The end of the first n bytes in the original.
  std::int64_t end_of(std::size_t n) const {
    if (n == 0) return begin;
    return ends == nullptr ? begin + static_cast<std::int64_t>(n) : base + ends[n - 1];
  }
  TextPiece part(std::size_t from, std::size_t to) const {
    return {
        text.substr(from, to - from), end_of(from), ends == nullptr ? nullptr : ends + from, base};
  }
};

// Owns what it shows.
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

// Writes what a text becomes, from its beginning to its end.
class AlignedWriter {
 public:
  // Throws DataError for a text of 4 GiB and more.
  explicit AlignedWriter(const TextPiece& from);
  // The bytes [begin, end) as they are.
  void copy_span(std::size_t begin, std::size_t end);
  // Text for what is before byte `end` and not written yet.
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
