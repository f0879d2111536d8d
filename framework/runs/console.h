// What a run shows: lines, and at most one status line below them that is drawn over.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace longspan {

// A value: copies write to the same place, from any thread. A default-constructed one is silent.
class Console {
 public:
  Console() = default;
  // has_status: the stream ends at a terminal, which can show a status line.
  Console(std::FILE* stream, bool has_status);

  bool has_status() const;
  void line(std::string_view text) const;
  // Replaces the status line; an empty text removes it. Nothing where there is no terminal.
  void status(std::string_view text) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Whether what is written to standard output is seen on a terminal. mpirun gives its ranks a
// terminal of its own whatever becomes of the output, so under it the question is asked of mpirun.
bool output_is_terminal();

// Columns of the terminal: COLUMNS, or what the terminal says, or 80.
int terminal_width();

}  // namespace longspan
