#include "framework/tokenizers/pattern_text.h"

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/quote.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/unicode_tables.h"

namespace longspan {
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
