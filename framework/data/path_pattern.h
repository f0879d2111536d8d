// Paths that name several files.
#pragma once

#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/core/named_path.h"

namespace longspan {

// The files that a path names, in the order of their names byte by byte: where no file has just
// that name and it has *, ? or [...], those that match it as in a shell, folders left out; else the
// path itself, whether or not there is such a file. Each knows the key that named it. Throws
// DataError when none matches or a folder cannot be read.
std::vector<NamedPath> files_matching(const NamedPath& path);

// Those of all paths of a list, one after another.
std::vector<NamedPath> files_of(const PathList& paths);
// The same as rank 0 finds them, on every rank. A collective.
std::vector<NamedPath> files_of(const PathList& paths, const Communicator& all);

}  // namespace longspan
