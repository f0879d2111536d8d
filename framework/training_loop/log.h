// The log of a run: on the console and in log.txt of its directory.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "framework/config/run_options.h"

namespace longspan {

// Console output of a run: lines, and at most one status line below them that is overwritten.

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

// A value type: copies write to one log, from any thread. A default-constructed log is silent, as
// on all ranks but one. Flushes each line. The console shows the message, prefixed by its level
// unless that is info. The file also records the time and the level.
class Log {
 public:
  Log() = default;
  // Appends to `file`; with an empty path logs only to the console. Throws Failure if the file
  // cannot be opened.
  Log(const Console& console, const std::filesystem::path& file, LogLevel least);

  template <typename... Arguments>
  void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    write(LogLevel::debug, format, std::forward<Arguments>(arguments)...);
  }
  template <typename... Arguments>
  void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    write(LogLevel::info, format, std::forward<Arguments>(arguments)...);
  }
  template <typename... Arguments>
  void warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    write(LogLevel::warning, format, std::forward<Arguments>(arguments)...);
  }
  template <typename... Arguments>
  void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    write(LogLevel::error, format, std::forward<Arguments>(arguments)...);
  }
  // Logs at level info to the file only, for text that the console shows in another form.
  template <typename... Arguments>
  void note(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (shows(LogLevel::info))
      put_in_file(fmt::format(format, std::forward<Arguments>(arguments)...));
  }

 private:
  struct State;

  template <typename... Arguments>
  void write(LogLevel level,
             fmt::format_string<Arguments...> format,
             Arguments&&... arguments) const {
    if (shows(level)) put(level, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  bool shows(LogLevel level) const;
  void put(LogLevel level, const std::string& sentence) const;
  void put_in_file(const std::string& sentence) const;

  std::shared_ptr<State> state_;
};

// Appends a line to the file of a log from any rank, or from a process outside the ranks. The rank
// that owns the log may have ended. Does nothing if the file does not exist or cannot be written.
void append_to_log(const std::filesystem::path& file,
                   LogLevel level,
                   const char* sentence) noexcept;

}  // namespace longspan
