// The host name.
#pragma once

#include <string>

namespace longspan {

// Returns the system's host name, empty if unavailable. Names may not be unique across machines.
std::string host_name();

}  // namespace longspan
