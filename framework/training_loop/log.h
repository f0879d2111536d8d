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

// A value: copies write to the same log, from any thread. A default-constructed one is silent: what
// all ranks but one hold. Each line is flushed as it is written. The console gets the sentence,
// with its level when it is not plain information; the file gets the time and the level too.
class Log {
 public:
  Log() = default;
  // Appends to `file`; an empty path means the console alone. Throws Failure when it cannot be
  // opened.
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
  // Plain information for the file alone, where the console shows it otherwise.
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

// Appends to the file of a log, from whichever rank, or process beside them, has something to say;
// the one that holds the log may be gone. Nothing where there is no file or it cannot be written.
void append_to_log(const std::filesystem::path& file,
                   LogLevel level,
                   const char* sentence) noexcept;

}  // namespace longspan
