#pragma once

#include <string>

namespace longspan {

// Returns the program's version, its source revision if known, and its libraries, one per line.
std::string version_text();

}  // namespace longspan
