// What a job tells the process that started it, which is `longspan run`.
#pragma once

#include <string_view>

namespace longspan {

// The environment variable that names the socket on which that process listens: an abstract one of
// Linux, which needs no file.
inline constexpr const char* launcher_variable = "LONGSPAN_LAUNCHER";

// Where this variable is set a rank that ends the job writes a line of its own to standard error:
// these words and its exit code. mpirun gives a code of its own where a machine cannot be reached.
inline constexpr const char* end_variable = "LONGSPAN_TELLS_END";
inline constexpr std::string_view end_words = "longspan ends the job: ";

// Writes that line where it is wanted.
void report_job_end(int exit_code);

// Says what this process is doing, in a few words as "step 41": whoever asked the job to stop is
// told what is waited for. Takes some microseconds and never waits. Does nothing where no such
// process is on this machine; what cannot be told is lost.
void notify_launcher(std::string_view doing);

}  // namespace longspan
