// Formats source locations and function names for messages.
#pragma once

#include <source_location>
#include <string>
#include <string_view>

namespace longspan {

// Returns "framework/nn/linear.cpp:45", with the path relative to the repository.
std::string format_source_location(const std::source_location& place);

// Returns the short function name, such as "linear" or "Trainer::agree". Drops from
// std::source_location's text the return type, parameters, namespaces, template arguments and an
// enclosed lambda.
std::string short_function_name(std::string_view words);

}  // namespace longspan
