// Abbreviated lists of names, for messages.
#pragma once

#include <span>
#include <string>

namespace longspan {

// Returns "a, b, c and 4 more", of bounded length for any number of names.
std::string join_first(std::span<const std::string> names);

}  // namespace longspan
