// Operating system: error messages, the host name, unnamed files, and CUDA's libraries.
#pragma once

#include <cerrno>
#include <string>

namespace longspan {

// Returns the message of an errno value, such as "No such file or directory".
std::string errno_message(int error = errno);

// Repeats a system call while a signal interrupts it: on network file systems any call. Returns its
// last result, negative on failure, with errno set.
template <typename Call>
auto retry_interrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Returns the system's host name, empty if unavailable. Names may not be unique across machines.
std::string host_name();

// Returns the descriptor of an empty, unnamed file in this directory, which is removed with its
// last descriptor. Returns -1 on failure, with errno set.
int open_unnamed_file(const std::string& folder);

// Returns the directory for temporary files: TMPDIR, or /tmp.
std::string temporary_folder();

// CUDA's libraries, opened on first use so that CPU-only programs run without them.

// Opens a library such as "libcublasLt.so.13" with dlopen(). Searches the directories of
// LONGSPAN_CUDA_LIBRARIES (separated by colons), the system loader's path, `toolkit` (its directory
// at build time), and the usual toolkit location. Throws Failure where none has it; `purpose`, such
// as "matrix products on a GPU", begins the message. The library stays open, since the driver may
// use its kernels until the process ends.
void* open_cuda_library(const std::string& name,
                        const std::string& purpose,
                        const std::string& toolkit);

}  // namespace longspan
