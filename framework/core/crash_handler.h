// Crash messages: reports ends of the program that do not return to main, from signal handlers.
#pragma once

#include <filesystem>
#include <string_view>

namespace longspan {

// Installs the crash handlers. Call it first in main. From then on one line on standard error,
// written without allocating memory, reports:
// - an exception that cannot propagate, as from a destructor that runs out of memory: exit code 1;
// - a library that exits with code -1, as HDF5 does without memory: exit code 1;
// - SIGSEGV, SIGBUS and SIGABRT, as of a library that ignores a failed allocation, or of a stack
//   overflow of the main thread. When the C library aborts, it prints its reason one line above.
//   The signal then ends the process as it would have; an existing handler (sanitizers) still runs.
void install_crash_handlers();

// Appends such a report to the run's log too: "2026-01-31 12:00:00.000 error " and the message, in
// local time. Writes nothing if the file no longer exists. Requires that no other thread calls it
// at the same time.
void set_crash_log(const std::filesystem::path& log);

// Opens and closes that log for `write_once_to_log`. Requires that no handler writes meanwhile.
void open_log_for_signals();
void close_log_for_signals();

// Writes a line to standard output and, with its level, to the end of that log. For handlers of
// signals that do not end the process. If processes share a log, only the first caller writes,
// since it locks the log until it closes it. Writes nothing once the last line is an error.
// `level`: "info" or "warning".
void write_once_to_log(std::string_view level, std::string_view sentence) noexcept;

}  // namespace longspan
