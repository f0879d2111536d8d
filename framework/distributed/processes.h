// Processes of this machine, from /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace longspan {

// Returns the process's descendants, as far as their parents are alive.
std::vector<pid_t> descendants_of(pid_t process);

}  // namespace longspan
