// Manual pages in roff, for man.
#pragma once

#include <string>
#include <string_view>

#include "launch/cli/command_table.h"

namespace longspan {

// The page of the program, or of one of its commands with those below it. `version`: "0.1.0".
std::string man_page(const CommandEntry& program,
                     const CommandEntry& command,
                     std::string_view version);

// "longspan-train": the name of a command's page, and of the file longspan-train.1.
std::string page_name(const CommandEntry& command);

}  // namespace longspan
