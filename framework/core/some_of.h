// Some of many names, for messages.
#pragma once

#include <span>
#include <string>

namespace longspan {

// "a, b, c and 4 more": a message never grows with the number of names.
std::string join_first(std::span<const std::string> names);

}  // namespace longspan
