#include "framework/tokenizers/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/tokenizers/pattern_text.h"

namespace longspan {

struct TextPattern::Compiled {
  struct FreeCode {
    void operator()(pcre2_code* compiled) const { pcre2_code_free(compiled); }
  };
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool is_fast = false;  // JIT-compiled
  std::string place;
};

std::string pattern_version() {
  std::array<char, 64> library{};
  std::array<char, 64> unicode{};
  pcre2_config(PCRE2_CONFIG_VERSION, library.data());
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, unicode.data());
  return std::string(library.data()) + " " + unicode.data();
}

TextPattern TextPattern::regex(const std::string& expression, const std::string& place) {
  const std::string text = pcre2_text(expression, place);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_shared<Compiled>();
  compiled->place = place;
  compiled->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()),
                    text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                    &error,
                    &offset,
                    nullptr));
  if (!compiled->code) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw DataError("{}: expected a regular expression, found {}: {}",
                    place,
                    quote(expression),
                    reinterpret_cast<const char*>(message.data()));
  }
  compiled->is_fast = pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE) == 0;
  TextPattern pattern;
  pattern.compiled_ = std::move(compiled);
  return pattern;
}

TextPattern TextPattern::literal(std::string text) {
  TextPattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

TextPattern TextPattern::from_json(const JsonCursor& json) {
  if (json.has("Regex")) {
    const JsonCursor expression = json["Regex"];
    return regex(expression.text(), expression.place());
  }
  return literal(json["String"].text());
}

PatternScan::PatternScan(const TextPattern& pattern, std::string_view text)
    : pattern_(pattern), text_(text) {
  if (pattern.compiled_)
    data_ = pcre2_match_data_create_from_pattern(pattern.compiled_->code.get(), nullptr);
}

PatternScan::~PatternScan() { pcre2_match_data_free(static_cast<pcre2_match_data*>(data_)); }

int PatternScan::match_at(std::size_t from) const {
  const TextPattern::Compiled& compiled = *pattern_.compiled_;
  auto* const data = static_cast<pcre2_match_data*>(data_);
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (compiled.is_fast)
    found = pcre2_jit_match(compiled.code.get(), subject, text_.size(), from, 0, data, nullptr);
  // Without JIT, backtracking state is on the heap.
  if (found == PCRE2_ERROR_JIT_STACKLIMIT)
    found = pcre2_match(compiled.code.get(),
                        subject,
                        text_.size(),
                        from,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        data,
                        nullptr);
  if (found < 0 && found != PCRE2_ERROR_NOMATCH)
    throw DataError("{}: the regular expression exceeds the step limit on {} bytes (PCRE2: {})",
                    compiled.place,
                    text_.size(),
                    found);
  return found;
}

bool PatternScan::find(std::size_t from, PatternSpan& match) {
  if (!pattern_.compiled_) {
    const std::size_t begin =
        pattern_.literal_.empty() ? std::string_view::npos : text_.find(pattern_.literal_, from);
    if (begin == std::string_view::npos) return false;
    match = {begin, begin + pattern_.literal_.size(), true};
    return true;
  }
  if (match_at(from) < 0) return false;
  const PCRE2_SIZE* const place = pcre2_get_ovector_pointer(static_cast<pcre2_match_data*>(data_));
  match = {place[0], place[1], true};
  return true;
}

bool PatternScan::next(PatternSpan& span) {
  while (!has_match_ && search_ <= text_.size() && at_ < text_.size()) {
    if (!find(search_, match_)) {
      search_ = text_.size() + 1;
      break;
    }
    search_ = match_.end;
    if (match_.begin < match_.end) {
      has_match_ = true;
      break;
    }
    // An empty match splits, and the search continues one character later.
    search_ += search_ < text_.size() ? next_width(text_, search_) : 1;
    if (match_.begin > at_) {
      span = {at_, match_.begin, false};
      at_ = match_.begin;
      return true;
    }
  }
  if (at_ >= text_.size()) return false;
  if (has_match_ && match_.begin <= at_) {
    span = match_;
    has_match_ = false;
  } else {
    span = {at_, has_match_ ? match_.begin : text_.size(), false};
  }
  at_ = span.end;
  return true;
}

}  // namespace longspan
