// Short files of lines, whole in memory.
#pragma once

#include <string>
#include <vector>

#include "framework/core/config_path.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// The lines of a text file (open_plain_text), "-" being standard input, without their ends ("\n" or
// "\r\n"). Rank 0 reads, the others get its bytes: collective. Throws DataError.
std::vector<std::string> read_lines(const ConfigPath& path, const Communicator& all);

}  // namespace longspan
