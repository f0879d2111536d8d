// Texts of others in a page, and numbers as it shows them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan {

// As text of HTML or the value of an attribute in quotes. Control characters become U+FFFD.
std::string html(std::string_view text);

// As a JSON string inside of a <script>: no "<" is left in it.
std::string script_string(std::string_view text);

// Six digits: "0.00123457", "1.5e+09".
std::string short_number(double value);

// "1,234,567".
std::string grouped(std::int64_t count);
// The same of a double that counts; in six digits what is too large to be a count.
std::string counted_text(double count);

// "3 h 5 min", "12.5 s".
std::string time_text(double seconds);

}  // namespace longspan
