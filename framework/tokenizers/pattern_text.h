// Regular expressions of tokenizer files, in PCRE2's words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longspan {

// An expression that means to PCRE2, with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE, what
// `expression` means to Oniguruma. Throws DataError, beginning with the place, for what is not
// UTF-8 or has an escape or a nested class of which that is not sure.
std::string pcre2_text(std::string_view expression, const std::string& place);

// The width of the character at byte `at` of valid UTF-8.
std::size_t next_width(std::string_view text, std::size_t at);

}  // namespace longspan
