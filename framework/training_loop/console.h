// What a run shows: lines, and at most one status line below them that is drawn over.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace longspan {

enum class Color : std::uint8_t { red, yellow };

// What the place that a console writes to can show. Without a terminal nothing but lines.
struct Terminal {
  bool has_status = false;          // a line can be drawn over
  bool has_colours = false;         // words can have one
  std::function<int()> width = {};  // its columns now; without it, lines may be of any length
};

// A value: copies write to the same place, from any thread. A default-constructed one is silent.
class Console {
 public:
  Console() = default;
  Console(std::FILE* stream, Terminal terminal);

  bool has_status() const;
  // Columns of the terminal now; 80 where there is none.
  int width() const;
  void line(std::string_view text) const;
  // Replaces the status line, which is cut to the width; an empty text removes it. Nothing where
  // there is no terminal. A terminal that has become narrower has wrapped the old line: all of its
  // rows are cleared.
  void status(std::string_view text) const;
  // The word in that colour where there are colours.
  std::string colored(std::string_view word, Color colour) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// What standard output ends at. It is no terminal where TERM is dumb, and has no colours where
// NO_COLOR is set, to whatever (no-color.org). mpirun gives its ranks a terminal of its own
// whatever becomes of the output, so under it the question is asked of mpirun.
Terminal terminal_of_output();

// Columns of that terminal: what it says itself, as it may be resized, or COLUMNS, or 80.
int terminal_width();

}  // namespace longspan
