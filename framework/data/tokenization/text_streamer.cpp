#include "framework/data/tokenization/text_streamer.h"

#include <algorithm>

namespace longspan {

namespace {

constexpr std::size_t max_before = 64;          // tokens
constexpr std::size_t max_character_bytes = 4;  // each may be a token
constexpr std::string_view not_a_character = "\xEF\xBF\xBD";

}  // namespace

TextStreamer::TextStreamer(const Tokenizer& tokenizer, std::span<const std::int64_t> before)
    : tokenizer_(tokenizer) {
  const auto last = before.last(std::min(before.size(), max_before));
  tokens_.assign(last.begin(), last.end());
  given_ = tokens_.size();
}

std::string TextStreamer::emitted_text() const {
  return tokenizer_.decode(std::span(tokens_).first(given_));
}

std::string TextStreamer::push(std::int64_t token) {
  if (!tokenizer_.needs_token_file()) return tokenizer_.decode({&token, 1});
  tokens_.push_back(token);
  const std::string before = emitted_text();
  const std::string now = tokenizer_.decode(tokens_);
  const bool may_continue =
      now.ends_with(not_a_character) && tokens_.size() - given_ < max_character_bytes;
  if (may_continue || now.size() <= before.size()) return "";
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(given_));
  given_ = tokens_.size();
  return now.substr(before.size());
}

std::string TextStreamer::finish() {
  if (tokens_.size() == given_) return "";
  const std::string now = tokenizer_.decode(tokens_);
  const std::string before = emitted_text();
  given_ = tokens_.size();
  return now.size() > before.size() ? now.substr(before.size()) : "";
}

}  // namespace longspan
