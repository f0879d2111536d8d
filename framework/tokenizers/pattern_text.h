// Translates regular expressions of tokenizer files to PCRE2.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longspan {

// Returns an expression whose meaning to PCRE2, with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE, is
// that of `expression` to Oniguruma. Throws DataError, prefixed with `place`, for invalid UTF-8,
// and for an escape or nested class without a guaranteed equivalent.
std::string pcre2_text(std::string_view expression, const std::string& place);

// Returns the byte width of the character at byte `at` of valid UTF-8.
std::size_t next_width(std::string_view text, std::size_t at);

}  // namespace longspan
