// Path patterns that match several files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/data/progress.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Returns whether a directory listing skips a file or directory, such as .ipynb_checkpoints.
bool is_hidden(const std::filesystem::path& path);

// Returns the files that a path matches, in bytewise order of their names. Unless a file has
// exactly that name, *, ? and [...] match as in a shell. Matching directories are skipped and
// appended to `folders`. A component ** matches any number of non-hidden directories. A path
// without a pattern is returned, whether or not it exists. Each result has the option key of the
// path. Throws DataError when nothing matches, when a directory cannot be read, and for ** next to
// other characters of a component.
std::vector<ConfigPath> files_matching(const ConfigPath& path,
                                       std::vector<std::string>* folders = nullptr);

// Returns the files of all paths of a list. The listener receives a note about matching
// directories.
std::vector<ConfigPath> files_of(const PathList& paths, const ProgressCallback& listener = {});
// Returns the files that rank 0 finds, on every rank. Collective.
std::vector<ConfigPath> files_of(const PathList& paths,
                                 const Communicator& all,
                                 const ProgressCallback& listener = {});

}  // namespace longspan
