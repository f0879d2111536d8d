// Tables and progress messages for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/files.h"
#include "framework/distributed/session.h"

namespace longspan {

// Formats rows of cells as lines with aligned columns, two spaces apart. Replaces control
// characters by question marks, as a cell is one line. Rows may differ in their number of cells.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

// Returns the text with control characters replaced by question marks.
std::string on_one_line(std::string_view text);

// Progress messages while long files are read.

// Prints a line that starts with `name` to standard error every five seconds on the first rank.
// Silent on other ranks.
ReadProgress reading_progress(const std::string& name, const Session& session);

}  // namespace longspan
