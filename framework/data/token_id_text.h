// Token ids as a text that people can write and read: numbers with blanks between them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// Calls sink(id, begin, end) for each number of a text, with the bytes that its digits have. Throws
// DataError, naming `place` and the word, for what is no number below `vocabulary`.
void for_each_id(std::string_view text,
                 std::int64_t vocabulary,
                 std::string_view place,
                 const std::function<void(std::int64_t, std::size_t, std::size_t)>& sink);

// "15 3 7" gives 15, 3 and 7. Throws as above.
std::vector<std::int64_t> parse_token_ids(std::string_view text,
                                          std::int64_t vocabulary,
                                          std::string_view place);

// " 15 3 7": each after a blank, so that texts of parts are parts of the text of the whole.
std::string format_token_ids(std::span<const std::int64_t> ids);

}  // namespace longspan
