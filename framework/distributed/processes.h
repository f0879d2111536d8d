// The processes of this machine, as Linux tells of them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace longspan {

// Every process that this one started, and those that they did, as far as their parents live.
std::vector<pid_t> descendants_of(pid_t process);

}  // namespace longspan
