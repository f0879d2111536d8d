// The log of a run: on the console and in log.txt of its directory.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "framework/config/run_options.h"
#include "framework/training_loop/console.h"

namespace longspan {

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
