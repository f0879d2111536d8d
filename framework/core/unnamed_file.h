// Files that no one else can open.
#pragma once

#include <string>

namespace longspan {

// Returns the descriptor of an empty file without a name in this folder, which is removed with its
// last descriptor. -1 where it cannot be created, as errno says.
int open_unnamed_file(const std::string& folder);

// The folder for temporary files: TMPDIR, or /tmp.
std::string temporary_folder();

}  // namespace longspan
