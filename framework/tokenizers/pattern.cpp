#include "framework/tokenizers/pattern.h"

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/unicode_tables.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

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

namespace {

// Returns characters of the category that are newer than PCRE2's Unicode version.
const char* newer(std::string_view category) {
  for (const NewerCharacters& entry : tokenizer_newer_characters)
    if (category == entry.category) return entry.ranges;
  return nullptr;
}

class PatternWriter {
 public:
  PatternWriter(std::string_view expression, const std::string& place)
      : expression_(expression), place_(place) {}

  std::string write() {
    while (at_ < expression_.size()) {
      const char letter = expression_[at_];
      if (letter == '\\')
        escape();
      else if (in_class_)
        inside(letter);
      else
        outside(letter);
    }
    return std::move(text_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw DataError("{}: does not support {} in the regular expression {}",
                    place_,
                    quote(what),
                    quote(expression_));
  }
  void copy(std::size_t count) {
    text_ += expression_.substr(at_, count);
    at_ += count;
  }
  void outside(char letter) {
    if (letter == '[') {
      in_class_ = true;
      copy(1);
      if (at_ < expression_.size() && expression_[at_] == '^') copy(1);
      // A leading "]" is a literal of the class.
      if (at_ < expression_.size() && expression_[at_] == ']') {
        text_ += '\\';
        copy(1);
      }
      return;
    }
    // PCRE2 reads + after an interval as possessive, and {,n} as a literal.
    if (expression_.substr(at_).starts_with("}+")) refuse("}+");
    if (expression_.substr(at_).starts_with("{,")) refuse("{,");
    if (letter == '(') check_flags();
    // Accepts groups with equal meaning in both, and no verbs.
    if (letter == '(' && expression_.substr(at_).starts_with("(*")) refuse("(*");
    copy(1);
  }
  // With (?m) a dot matches a newline in Oniguruma but not in PCRE2.
  void check_flags() const {
    std::string_view rest = expression_.substr(at_);
    if (!rest.starts_with("(?")) return;
    rest = rest.substr(2, rest.find_first_not_of("imsx-", 2) - 2);
    if (rest.find('m') != std::string_view::npos) refuse("(?m)");
  }
  void inside(char letter) {
    if (letter == '[') refuse("[ in a class");
    if (expression_.substr(at_).starts_with("&&")) refuse("&&");
    if (letter == ']') in_class_ = false;
    copy(1);
  }
  void escape() {
    if (at_ + 1 == expression_.size()) refuse("\\");
    const char kind = expression_[at_ + 1];
    constexpr std::string_view same = "dDnrtbBf";
    if (kind == 's' || kind == 'S') {
      text_ += kind == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      at_ += 2;
    } else if (kind == 'w' && !in_class_) {
      text_ += fmt::format(
          "[\\p{{Alphabetic}}\\p{{M}}\\p{{Nd}}\\p{{Pc}}\\xB2\\xB3\\xB9\\xBC-\\xBE{}{}{}]",
          newer("L"),
          newer("M"),
          newer("Nd"));
      at_ += 2;
    } else if (kind == 'p' || kind == 'P') {
      property(kind == 'P');
    } else if (kind == 'x' || kind == 'u') {
      code_point(kind);
    } else if (same.find(kind) != std::string_view::npos &&
               !(in_class_ && (kind == 'b' || kind == 'B'))) {
      copy(2);
    } else if (static_cast<unsigned char>(kind) < 0x80 &&
               std::isalnum(static_cast<unsigned char>(kind)) == 0) {
      copy(2);
    } else {
      refuse(expression_.substr(at_, 2));
    }
  }
  // \p{L}, \pL, \p{^L}.
  void property(bool is_not) {
    std::string_view rest = expression_.substr(at_ + 2);
    const std::size_t end = rest.starts_with('{') ? rest.find('}') : 0;
    if (rest.empty() || end == std::string_view::npos) refuse("\\p");
    std::string_view name = end == 0 ? rest.substr(0, 1) : rest.substr(1, end - 1);
    const std::string_view whole = expression_.substr(at_, 2 + end + 1);
    if (name.starts_with('^')) {
      is_not = !is_not;
      name.remove_prefix(1);
    }
    const char* const more = newer(name);
    const bool is_script = more == nullptr;
    if (is_not && in_class_ && !is_script && *more != '\0') refuse(whole);
    at_ += whole.size();
    if (is_script || *more == '\0')
      text_ += fmt::format("\\{}{{{}}}", is_not ? 'P' : 'p', name);
    else if (in_class_)
      text_ += fmt::format("\\p{{{}}}{}", name, more);
    else
      text_ += fmt::format("[{}\\p{{{}}}{}]", is_not ? "^" : "", name, more);
  }
  // \x41, \x{1F600} and \u0041.
  void code_point(char kind) {
    const std::string_view rest = expression_.substr(at_ + 2);
    std::size_t digits = kind == 'u' ? 4 : 2;
    std::size_t skipped = 0;
    if (kind == 'x' && rest.starts_with('{')) {
      const std::size_t end = rest.find('}');
      if (end == std::string_view::npos) refuse("\\x{");
      skipped = 1;
      digits = end - 1;
    }
    const std::string_view hexadecimal = rest.substr(skipped, digits);
    if (hexadecimal.size() != digits || digits == 0 || digits > 6 ||
        hexadecimal.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      refuse(expression_.substr(at_, 2));
    text_ += fmt::format("\\x{{{}}}", hexadecimal);
    at_ += 2 + digits + 2 * skipped;
  }

  std::string_view expression_;
  const std::string& place_;
  std::string text_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string pcre2_text(std::string_view expression, const std::string& place) {
  return PatternWriter(expression, place).write();
}

std::size_t next_width(std::string_view text, std::size_t at) {
  return next_character(text.substr(at)).width;
}

}  // namespace longspan
