// A place in the program as people read it.
#pragma once

#include <source_location>
#include <string>
#include <string_view>

namespace longspan {

// "framework/nn/linear.cpp:45": the path within the tree.
std::string format_source_location(const std::source_location& place);

// "linear", "Trainer::agree": the function in the words of a std::source_location, without what it
// returns and takes, its namespaces, the arguments of templates, and the lambda within it.
std::string short_function_name(std::string_view words);

}  // namespace longspan
