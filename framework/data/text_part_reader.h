// A text file in parts that begin with blanks, as tokenizers of whole texts take them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

class MappedFile;

struct TextPart {
  std::string_view text;
  std::int64_t begin = 0;  // in bytes of the file
};

// Reads some megabytes at a time. Parts have 256 KiB and what is left to the next place where a
// text can be cut; where there is none, a part has `most` bytes and ends behind any character, or
// is as long as it is.
class TextPartReader {
 public:
  static constexpr std::size_t as_long_as_it_is = ~std::size_t{0};

  // Finds the first place at byte `least` of a text or later; npos where there is none.
  using PlaceToCut = std::function<std::size_t(std::string_view text, std::size_t least)>;

  // The file must outlive the reader.
  TextPartReader(const MappedFile& file,
                 PlaceToCut place_to_cut,
                 std::size_t most = as_long_as_it_is)
      : file_(file), place_to_cut_(std::move(place_to_cut)), most_(most) {}

  // Reads on; false when nothing is left. Throws DataError with the byte offset where the file is
  // not UTF-8.
  bool next();
  // One after another; none where more must be read first. Until the following call of `next`.
  std::span<const TextPart> parts() const { return parts_; }
  // The byte up to which it has read.
  std::int64_t at() const { return at_; }

 private:
  std::size_t checked_bytes() const;

  const MappedFile& file_;
  PlaceToCut place_to_cut_;
  std::size_t most_;
  std::int64_t at_ = 0;
  std::string text_;          // what was read and may go on
  std::size_t checked_ = 0;   // bytes of text_ that are whole characters
  std::size_t searched_ = 0;  // bytes of text_ that have no place to cut
  std::size_t given_ = 0;     // bytes of text_ that are parts
  std::vector<TextPart> parts_;
};

}  // namespace longspan
