// Temporary files that no other process can open.
#pragma once

#include <string>

namespace longspan {

// Returns the descriptor of an empty, unnamed file in this directory, which is removed with its
// last descriptor. Returns -1 on failure, with errno set.
int open_unnamed_file(const std::string& folder);

// Returns the directory for temporary files: TMPDIR, or /tmp.
std::string temporary_folder();

}  // namespace longspan
