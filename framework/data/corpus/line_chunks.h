// A text as lines, and lines that are too long as pieces of lines.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace longspan {

class InputFile;

// Bytes of a line that are encoded at once: a longer one is cut before a space where it has one.
inline constexpr std::size_t longest_line_piece = 32768;

struct LineChunk {
  std::string_view text;
  bool ends_line = false;  // a line's end follows
};

// Where a text of more than `longest` bytes is cut, at that byte or before: at its last space
// there, or else between characters.
std::size_t cut_of(std::string_view text, std::size_t longest);

// Cuts `text`, which begins where a piece begins. When `last` is false, what could go on after it
// is left. `used` is set to the bytes of the pieces, ends of lines included. `longest` is at least
// 4; characters are not cut.
std::vector<LineChunk> split_lines(std::string_view text,
                                   bool last,
                                   std::size_t& used,
                                   std::size_t longest = longest_line_piece);

// The same of a file's bytes, some megabytes at a time.
class LineReader {
 public:
  // Of bytes [begin, end), where `begin` begins a piece. Where the file goes on after `end`, the
  // line that is cut off there is left out. The file must outlive the reader.
  LineReader(const InputFile& file,
             std::int64_t begin,
             std::int64_t end,
             std::size_t longest = longest_line_piece);

  // Reads on; false when nothing is left. Throws DataError with the byte offset where the file is
  // not UTF-8.
  bool next();
  // Until the following call of `next`.
  std::span<const LineChunk> pieces() const { return pieces_; }
  // The byte up to which it has read.
  std::int64_t at() const { return at_; }

 private:
  const InputFile& file_;
  std::int64_t at_;
  std::int64_t end_;
  std::size_t longest_;
  std::vector<char> buffer_;
  std::vector<LineChunk> pieces_;
};

}  // namespace longspan
