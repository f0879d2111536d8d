// Messages of the operating system's error codes.
#pragma once

#include <cerrno>
#include <string>

namespace longspan {

// Returns the message of an errno value, such as "No such file or directory".
std::string errno_message(int error = errno);

}  // namespace longspan
