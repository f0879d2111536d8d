// Manual pages.
#pragma once

#include <string>
#include <string_view>

#include "launch/cli/command_table.h"

namespace longspan {

// Returns the page of the program, or of a command with its subcommands. `version`: "0.1.0".
std::string man_page(const CommandEntry& program,
                     const CommandEntry& command,
                     std::string_view version);

// Returns the name of a command's page: "longspan-train", for the file longspan-train.1.
std::string page_name(const CommandEntry& command);

}  // namespace longspan
