// Lines of a file, in order, with their numbers and offsets.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/core/input_file.h"
#include "framework/data/progress.h"
#include "framework/distributed/communicator.h"

namespace longspan {

struct Line {
  std::int64_t number = 0;  // from 1
  std::int64_t offset = 0;  // of its first byte
  std::string_view text;    // without its end, which is "\n" or "\r\n"
};

// Calls `f` with some megabytes of complete lines at a time. The texts are valid until it returns.
// Throws what `f` and the listener throw.
void for_each_line_block(const InputFile& file,
                         const ProgressCallback& listener,
                         const std::function<void(std::span<const Line>)>& f);

// Returns "FILE:12", the prefix of messages.
std::string line_location(std::string_view path, std::int64_t number);

// Returns the number of the line that contains this byte. Reads everything before it.
std::int64_t line_number_at(const InputFile& file, std::int64_t offset);

// Returns bytes [begin, end).
std::string read_bytes(const InputFile& file, std::int64_t begin, std::int64_t end);

// Returns the text without its line end, if any.
std::string_view without_line_end(std::string_view text);

// Calls f(0) .. f(count - 1) on the OpenMP threads, `at_once` indices per chunk. Throws the
// exception of the lowest failing index, so that messages do not depend on thread timing.
void parallel_for(std::size_t count,
                  const std::function<void(std::size_t)>& f,
                  std::size_t at_once = 64);

// Returns the lines of a text file (open_plain_text), without their ends ("
// " or "\r
// "). "-" is standard input. Rank 0 reads and broadcasts. Throws DataError. Collective.
std::vector<std::string> read_lines(const ConfigPath& path, const Communicator& all);

// Text as lines, with long lines cut into chunks.
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
