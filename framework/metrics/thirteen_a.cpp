#include "framework/metrics/thirteen_a.h"

#include <algorithm>
#include <utility>

#include "framework/metrics/text.h"

namespace longspan {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_point(char letter) { return letter == '.' || letter == ','; }

// [\{-\~\[-\` -\&\(-\+\:-\@\/]
bool is_symbol(char letter) {
  return (letter >= '{' && letter <= '~') || (letter >= '[' && letter <= '`') ||
         (letter >= ' ' && letter <= '&') || (letter >= '(' && letter <= '+') ||
         (letter >= ':' && letter <= '@') || letter == '/';
}

// Replaces each adjacent pair for which `fits` holds, from the left and without overlap, by the
// output of `put`. Operating on bytes is safe: the rules contain ASCII characters only. A pair with
// a non-ASCII character equals a pair with its adjacent byte.
template <typename Fits, typename Put>
std::string replace_pairs(const std::string& text, const Fits& fits, const Put& put) {
  std::string result;
  result.reserve(text.size() + text.size() / 4);
  std::size_t i = 0;
  while (i < text.size()) {
    if (i + 1 < text.size() && fits(text[i], text[i + 1])) {
      put(result, text[i], text[i + 1]);
      i += 2;
    } else {
      result += text[i++];
    }
  }
  return result;
}

// The replacements r'\1 \2 ' and r' \1 \2' of a regular expression.
void append_split_after(std::string& text, char first, char second) {
  for (const char letter : {first, ' ', second, ' '}) text += letter;
}
void append_split_before(std::string& text, char first, char second) {
  for (const char letter : {' ', first, ' ', second}) text += letter;
}

std::string without_markup(std::string_view line) {
  std::string text(line);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  return text;
}

// sacreBLEU's ranges. It writes two of them as "\u20000" and "\u2f800". Python parses these as
// U+2000 and U+2F80 followed by "0", so the ranges begin one character later.
constexpr std::pair<char32_t, char32_t> chinese_ranges[] = {
    {0x2001, 0x2A6D}, {0x2E80, 0x2EFF}, {0x2F00, 0x2FDF}, {0x2F81, 0x2FA1}, {0x2FF0, 0x2FFF},
    {0x3000, 0x303F}, {0x3100, 0x312F}, {0x31A0, 0x31BF}, {0x31C0, 0x31EF}, {0x3200, 0x32FF},
    {0x3300, 0x33FF}, {0x3400, 0x4DB5}, {0x4E00, 0x9FA5}, {0x9FA6, 0x9FBB}, {0xF900, 0xFA2D},
    {0xFA30, 0xFA6A}, {0xFA70, 0xFAD9}, {0xFE10, 0xFE1F}, {0xFE30, 0xFE4F}, {0xFF00, 0xFFEF}};

bool is_chinese_of_sacrebleu(char32_t code_point) {
  return std::ranges::any_of(chinese_ranges, [&](const auto& range) {
    return code_point >= range.first && code_point <= range.second;
  });
}

// Equals sacrebleu.tokenizers.tokenizer_re.TokenizerRegexp.
std::string split_at_marks(std::string_view line) {
  std::string text;
  for (const char letter : line) {
    if (is_symbol(letter))
      text += {' ', letter, ' '};
    else
      text += letter;
  }
  // A period or comma after a non-digit; before a non-digit; a hyphen after a digit.
  text = replace_pairs(
      text, [](char a, char b) { return !is_digit(a) && is_point(b); }, append_split_after);
  text = replace_pairs(
      text, [](char a, char b) { return is_point(a) && !is_digit(b); }, append_split_before);
  text = replace_pairs(
      text, [](char a, char b) { return is_digit(a) && b == '-'; }, append_split_after);
  std::string tokens;
  tokens.reserve(text.size());
  for (const std::string_view word : words_of(text)) {
    if (!tokens.empty()) tokens += ' ';
    tokens += word;
  }
  return tokens;
}

}  // namespace

std::string tokenize_13a(std::string_view line) {
  return split_at_marks(" " + without_markup(line) + " ");
}

std::string tokenize_zh(std::string_view line) {
  return split_at_marks(with_space_around(without_outer_space(line), is_chinese_of_sacrebleu));
}

}  // namespace longspan
