// Text as lines, with long lines cut into chunks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace longspan {

class InputFile;

// Bytes of a line encoded at once. A longer line is cut before a space if possible.
inline constexpr std::size_t max_line_piece_length = 32768;

struct LineChunk {
  std::string_view text;
  bool ends_line = false;  // a line end follows
};

// Returns the position, at most `longest`, at which a longer text is cut: at its last space in that
// range, or else between characters.
std::size_t cut_of(std::string_view text, std::size_t longest);

// Cuts `text`, which starts at a chunk boundary. If `last` is false, the incomplete rest is left.
// Sets `used` to the bytes of the chunks, line ends included. Requires `longest` >= 4. Characters
// are not cut.
std::vector<LineChunk> split_lines(std::string_view text,
                                   bool last,
                                   std::size_t& used,
                                   std::size_t longest = max_line_piece_length);

// Applies split_lines to a file, some megabytes at a time.
class LineReader {
 public:
  // Reads bytes [begin, end); `begin` is a chunk boundary. If the file continues after `end`, the
  // line cut there is skipped. The file must outlive the reader.
  LineReader(const InputFile& file,
             std::int64_t begin,
             std::int64_t end,
             std::size_t longest = max_line_piece_length);

  // Reads the next chunks; returns false at the end. Throws DataError, with the byte offset, for
  // invalid UTF-8.
  bool next();
  // Valid until the next call of `next`.
  std::span<const LineChunk> pieces() const { return pieces_; }
  // Returns the byte offset up to which it has read.
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
