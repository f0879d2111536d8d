// Short files of lines, read entirely into memory.
#pragma once

#include <string>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Returns the lines of a text file (open_plain_text), without their ends ("
// " or "\r
// "). "-" is standard input. Rank 0 reads and broadcasts. Throws DataError. Collective.
std::vector<std::string> read_lines(const ConfigPath& path, const Communicator& all);

}  // namespace longspan
