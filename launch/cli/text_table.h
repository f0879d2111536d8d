// Tables for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// Rows of cells as lines whose columns stand below each other, two spaces apart. Control characters
// become question marks: a cell is one line. A row may have fewer cells than another.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

// The text with its control characters as question marks.
std::string on_one_line(std::string_view text);

}  // namespace longspan
