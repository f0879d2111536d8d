#pragma once

#include <string>

namespace longspan {

// The program's version, the revision of its sources where it is known, and the libraries it runs
// with, a line each.
std::string version_text();

}  // namespace longspan
