// Token ids as a text that people can write and read: numbers with blanks between them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

// "15 3 7" gives 15, 3 and 7. Throws DataError, naming `place` and the word, for what is no number
// below `vocabulary`.
std::vector<std::int64_t> ids_of_text(std::string_view text,
                                      std::int64_t vocabulary,
                                      std::string_view place);

// " 15 3 7": each after a blank, so that texts of parts are parts of the text of the whole.
std::string text_of_ids(std::span<const std::int64_t> ids);

}  // namespace longspan
