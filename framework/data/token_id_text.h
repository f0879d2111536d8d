// Token ids as human-readable text: numbers separated by blanks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// Calls sink(id, begin, end) for each number of a text, with the byte range of its digits. Throws
// DataError, with `place` and the word, for anything but a number below `vocabulary`.
void for_each_id(std::string_view text,
                 std::int64_t vocabulary,
                 std::string_view place,
                 const std::function<void(std::int64_t, std::size_t, std::size_t)>& sink);

// Parses "15 3 7" into 15, 3 and 7. Throws as for_each_id.
std::vector<std::int64_t> parse_token_ids(std::string_view text,
                                          std::int64_t vocabulary,
                                          std::string_view place);

// Formats ids as " 15 3 7". Each has a leading blank, so that texts can be concatenated.
std::string format_token_ids(std::span<const std::int64_t> ids);

}  // namespace longspan
