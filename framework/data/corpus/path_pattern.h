// Paths that name several files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/data/progress.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Whether a file or folder is left out where a folder is listed, as .ipynb_checkpoints.
bool is_hidden(const std::filesystem::path& path);

// The files that a path names, in the order of their names byte by byte: where no file has just
// that name and it has *, ? or [...], those that match it as in a shell, folders left out and
// written into `folders`; else the path itself, whether or not there is such a file. A component **
// is any number of folders, hidden ones left out. Each has the key that named it. Throws DataError
// when none matches, when a folder cannot be read, and for ** in a component with other letters.
std::vector<ConfigPath> files_matching(const ConfigPath& path,
                                       std::vector<std::string>* folders = nullptr);

// Those of all paths of a list, one after another. The listener gets a note of folders that match.
std::vector<ConfigPath> files_of(const PathList& paths, const ProgressCallback& listener = {});
// The same as rank 0 finds them, on every rank. A collective.
std::vector<ConfigPath> files_of(const PathList& paths,
                                 const Communicator& all,
                                 const ProgressCallback& listener = {});

}  // namespace longspan
