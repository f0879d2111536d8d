#include "framework/data/token_id_text.h"

#include <charconv>

#include "framework/core/error.h"
#include "framework/core/quote.h"

namespace longspan {

void for_each_id(std::string_view text,
                 std::int64_t vocabulary,
                 std::string_view place,
                 const std::function<void(std::int64_t, std::size_t, std::size_t)>& sink) {
  constexpr std::string_view blanks = " \t\r\n";
  for (std::size_t at = text.find_first_not_of(blanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    std::int64_t id = -1;
    const auto [after, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    const bool is_number = error == std::errc() && after == word.data() + word.size();
    if (!is_number || id < 0 || id >= vocabulary)
      throw DataError(
          "{}: byte {}: expected a token id from 0 to {}, found {}; set data.tokenizer.type to "
          "read text, as none reads ids with blanks between them",
          place,
          at,
          vocabulary - 1,
          quote(word));
    sink(id, at, end);
    at = text.find_first_not_of(blanks, end);
  }
}

std::vector<std::int64_t> parse_token_ids(std::string_view text,
                                          std::int64_t vocabulary,
                                          std::string_view place) {
  std::vector<std::int64_t> ids;
  for_each_id(text, vocabulary, place, [&ids](std::int64_t id, std::size_t, std::size_t) {
    ids.push_back(id);
  });
  return ids;
}

std::string format_token_ids(std::span<const std::int64_t> ids) {
  std::string text;
  for (const std::int64_t id : ids) text += fmt::format(" {}", id);
  return text;
}

}  // namespace longspan
