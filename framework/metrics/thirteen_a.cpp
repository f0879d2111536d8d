#include "framework/metrics/thirteen_a.h"

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

// Each pair of neighbours for which `fits` holds, from the left and without overlap, is replaced by
// what `put` appends. Rules of characters may work on bytes: they name ASCII characters only, and a
// pair with another character is as well one with its nearest byte.
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

// As a regular expression's r'\1 \2 ' and r' \1 \2'.
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

}  // namespace

std::string tokenize_13a(std::string_view line) {
  std::string text = " ";
  for (const char letter : without_markup(line)) {
    if (is_symbol(letter))
      text += {' ', letter, ' '};
    else
      text += letter;
  }
  text += ' ';
  // A point or comma after what is no digit; before what is none; a dash after a digit.
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

}  // namespace longspan
