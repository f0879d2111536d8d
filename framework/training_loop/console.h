// Console output of a run: lines, and at most one status line below them that is overwritten.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace longspan {

enum class Color : std::uint8_t { red, yellow };

// Capabilities of a console's output. Without a terminal it shows only lines.
struct Terminal {
  bool has_status = false;          // the last line can be overwritten
  bool has_colors = false;          // words can be colored
  std::function<int()> width = {};  // current number of columns; empty: unlimited
};

// A value type: copies write to one stream, from any thread. A default-constructed one is silent.
class Console {
 public:
  Console() = default;
  Console(std::FILE* stream, Terminal terminal);

  bool has_status() const;
  // Returns the terminal's current number of columns, 80 without a terminal.
  int width() const;
  void line(std::string_view text) const;
  // Replaces the status line, cut to the width; an empty text removes it. Does nothing without a
  // terminal. Clears all rows of the old line, as a terminal that has become narrower has wrapped
  // it.
  void status(std::string_view text) const;
  // Returns the word in that color if the terminal has colors.
  std::string colored(std::string_view word, Color color) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Returns the capabilities of standard output. It counts as no terminal if TERM is dumb, and has no
// colors if NO_COLOR is set to any value (no-color.org). mpirun gives its ranks a pseudo-terminal
// wherever the output goes, so under mpirun this checks mpirun's own output.
Terminal terminal_of_output();

// Returns the columns of that terminal: its reported width, which a resize changes, or COLUMNS, or
// 80.
int terminal_width();

}  // namespace longspan
