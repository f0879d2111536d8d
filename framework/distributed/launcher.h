// Messages from a job to `longspan launch`, the process that started it.
#pragma once

#include <string_view>

namespace longspan {

// Environment variable with the name of the launcher's socket: an abstract Linux socket, which
// needs no file.
inline constexpr const char* launcher_variable = "LONGSPAN_LAUNCHER";

// If this variable is set, a rank that ends the job writes a line to standard error: these words
// and its exit code. mpirun returns its own code when a machine is unreachable.
inline constexpr const char* end_variable = "LONGSPAN_REPORTS_END";
inline constexpr std::string_view end_words = "longspan ends the job: ";

// Writes that line if the variable is set.
void report_job_end(int exit_code);

// Sends this process's current activity, such as "step 41", which the launcher shows while the job
// is stopping. Takes microseconds and never blocks. Does nothing without a launcher on this
// machine; undeliverable messages are dropped.
void notify_launcher(std::string_view doing);

}  // namespace longspan
