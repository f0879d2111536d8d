// What is said where the program ends without coming back to main, and by handlers of signals.
#pragma once

#include <filesystem>
#include <string_view>

namespace longspan {

// For main, first of all. From now on one sentence on standard error tells such an end, written
// without taking memory:
// - an exception that cannot be passed on, as one out of a destructor that finds no memory: exit
//   code 1;
// - a library that ends the process with code -1, as HDF5 does without memory: exit code 1;
// - SIGSEGV, SIGBUS and SIGABRT, as of a library that does not see that it got no memory, or of the
//   main thread's stack that is full; where the C library aborts, it says why in a line before. The
//   signal then ends the process as it would have. Who handles it already, as a sanitizer does,
//   goes on to.
void install_crash_handlers();

// Such an end is from now on told at the end of a run's log too: "2026-01-31 12:00:00.000 error "
// and the sentence, in local time. Not where the file is gone by then. Not to be called while
// another thread does.
void set_crash_log(const std::filesystem::path& log);

// Opens that log for `write_once_to_log`, and closes it. No handler may write meanwhile.
void open_log_for_signals();
void close_log_for_signals();

// For the handler of a signal that does not end the process: a line on standard output and, with
// its level, at the end of that log. Of the processes with one log, only the first to call it
// writes, as it locks the log until it closes it, and none does once an error is the last line.
// `level`: "info" or "warning".
void write_once_to_log(std::string_view level, std::string_view sentence) noexcept;

}  // namespace longspan
