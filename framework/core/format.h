// Text for messages: counts, byte counts, positions, and lists.
#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

namespace longspan {

// Returns "1 rank", "2 ranks". `plural`: of an irregular noun, such as "batches".
std::string pluralize(std::int64_t count, std::string_view noun, std::string_view plural = "");

// Returns "1.25 GB", "12.3 MB", "4.1 kB" or "12 bytes": powers of ten.
std::string format_bytes(double bytes);

// Returns "framework/nn/linear.cpp:45", with the path relative to the repository.
std::string format_source_location(const std::source_location& place);

// Returns the short function name, such as "linear" or "Trainer::agree". Drops from
// std::source_location's text the return type, parameters, namespaces, template arguments and an
// enclosed lambda.
std::string short_function_name(std::string_view words);

// Returns "a, b, c and 4 more", of bounded length for any number of names.
std::string join_first(std::span<const std::string> names);

}  // namespace longspan
