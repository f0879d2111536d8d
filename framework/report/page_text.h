// Escaping of untrusted text for a page, and number formatting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

// Escapes text for HTML content or a quoted attribute value. Control characters become U+FFFD.
std::string html(std::string_view text);

// Returns a JSON string for use in a <script> element: contains no "<".
std::string script_string(std::string_view text);

// Six significant digits: "0.00123457", "1.5e+09".
std::string short_number(double value);

// "1,234,567".
std::string grouped(std::int64_t count);
// Formats an integral double the same way; with six digits where it is too large for a count.
std::string counted_text(double count);

// "3 h 5 min", "12.5 s".
std::string time_text(double seconds);

}  // namespace longspan
