#include "framework/tokenizers/added_tokens.h"

#include <algorithm>

#include "framework/tokenizers/characters.h"

namespace longspan {
namespace {

bool is_within_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin > 0 && is_word(character_before(text, begin))) ||
         (end < text.size() && is_word(next_character(text.substr(end)).code_point));
}

std::size_t without_blanks_before(std::string_view text, std::size_t begin, std::size_t least) {
  while (begin > least) {
    const char32_t before = character_before(text, begin);
    if (!is_white_space(before)) break;
    begin -= utf8_of(before).size();
  }
  return begin;
}

std::size_t past_blanks(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const NextCharacter next = next_character(text.substr(end));
    if (!is_white_space(next.code_point)) break;
    end += next.width;
  }
  return end;
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const JsonCursor& json) {
  std::vector<AddedToken> tokens;
  if (!json.is_present()) return tokens;
  if (!json.is_list()) json.throw_data_error("a list of tokens");
  for (std::size_t i = 0; i < json.size(); ++i) {
    const JsonCursor entry = json[i];
    AddedToken& token = tokens.emplace_back();
    token.id = static_cast<std::int32_t>(entry["id"].integer(0, (1 << 24) - 1));
    token.content = entry["content"].text();
    token.is_special = entry["special"].flag(false);
    token.is_single_word = entry["single_word"].flag(false);
    token.strips_left = entry["lstrip"].flag(false);
    token.strips_right = entry["rstrip"].flag(false);
    token.is_normalized = entry["normalized"].flag(!token.is_special);
  }
  return tokens;
}

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens,
                                   bool normalized,
                                   const TextNormalizer& normalizer) {
  for (const AddedToken& token : tokens) {
    if (token.is_normalized != normalized || token.content.empty()) continue;
    std::string content = token.content;
    if (normalized && normalizer) content = normalizer(TextPiece{token.content}).text();
    if (content.empty()) continue;
    tree_.add(content, static_cast<std::int32_t>(tokens_.size()));
    begins_[static_cast<unsigned char>(content.front())] = true;
    tokens_.push_back(token);
  }
}

std::int32_t AddedTokenFinder::longest_at(std::string_view text,
                                          std::size_t at,
                                          std::size_t& bytes) const {
  std::int32_t found = -1;
  tree_.for_each_prefix(text.substr(at), [&](std::size_t width, std::int32_t place) {
    found = place;
    bytes = width;
  });
  return found;
}

void AddedTokenFinder::cut(std::string_view text, const Listener& listener) const {
  std::size_t given = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    std::size_t bytes = 0;
    const std::int32_t place = longest_at(text, at, bytes);
    if (place < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(place)];
    std::size_t begin = at;
    std::size_t end = at + bytes;
    at = end;
    if (token.is_single_word && is_within_word(text, begin, end)) continue;
    if (token.strips_left) begin = without_blanks_before(text, begin, given);
    if (token.strips_right) end = past_blanks(text, end);
    if (given < begin) listener(given, begin, nullptr);
    // Blanks already consumed by another token may begin this one; its span includes them.
    listener(begin, end, &token);
    given = end;
  }
  if (given < text.size()) listener(given, text.size(), nullptr);
}

}  // namespace longspan
