// The operating system's words for an error.
#pragma once

#include <cerrno>
#include <string>

namespace longspan {

// Such as "No such file or directory"; `error` is a value of errno.
std::string errno_message(int error = errno);

}  // namespace longspan
