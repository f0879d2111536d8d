#include "framework/core/quote.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/decimal.h"

namespace longspan {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

// Returns a length of at most `most` bytes that does not split a UTF-8 character.
std::size_t length_within(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  std::size_t length = most;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0u) == 0x80u) --length;
  return length;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Words that YAML parsers do not read as strings.
bool is_reserved(const std::string& text) {
  std::string lower = text;
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  static constexpr std::string_view words[] = {
      "null", "true", "false", "yes", "no", "on", "off", "y", "n"};
  return std::find(std::begin(words), std::end(words), lower) != std::end(words);
}

}  // namespace

std::string yaml_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-';
  };
  const bool starts_well = !text.empty() && (is_letter(text[0]) || text[0] == '/');
  if (starts_well && std::all_of(text.begin(), text.end(), is_plain) && !is_reserved(text)) {
    return text;
  }
  return fmt::format("\"{}\"", escaped(text));
}

std::string quote(std::string_view text) {
  constexpr std::size_t most = 80;
  const std::size_t kept = length_within(text, most);
  return fmt::format("\"{}{}\"", escaped(text.substr(0, kept)), kept < text.size() ? "..." : "");
}

std::string truncated(std::string_view text, std::size_t most) {
  const std::size_t kept = length_within(text, most);
  return fmt::format("{}{}", text.substr(0, kept), kept < text.size() ? "..." : "");
}

std::string some_in_quotes(std::span<const std::string> words, const std::string& noun) {
  constexpr std::size_t most = 3;
  std::string text = noun;
  for (std::size_t i = 0; i < std::min(most, words.size()); ++i)
    text += (i == 0 ? " " : ", ") + quote(words[i]);
  return words.size() > most ? text + fmt::format(" and {} more", words.size() - most) : text;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return lower;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text)
    if (letter == separator)
      parts.emplace_back();
    else
      parts.back() += letter;
  return parts;
}

std::string join_or(std::span<const std::string> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table suffice: a swap reads two rows back.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string closest_match(std::string_view text, std::span<const std::string> words) {
  const auto leaf = [](std::string_view key) { return key.substr(key.rfind('.') + 1); };
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, text.size() / 4) + 1;
  for (const std::string& word : words) {
    // The right leaf in another section is close, regardless of the sections' lengths.
    const bool same_leaf = leaf(text) == leaf(word);
    // Skips much longer candidates: the distance to a megabyte of text is slow to compute.
    const std::size_t longer =
        std::max(text.size(), word.size()) - std::min(text.size(), word.size());
    if (longer >= best_distance && !same_leaf) continue;
    std::size_t distance = longer >= best_distance ? longer : edit_distance(text, word);
    if (same_leaf) distance = std::min<std::size_t>(distance, 2);
    if (distance < best_distance) {
      best_distance = distance;
      best = word;
    }
  }
  // Rejects matches that change more than half of a short word.
  return best_distance * 2 > text.size() + 1 ? "" : best;
}

std::string shown(std::string_view text) {
  const std::string quoted = quote(text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace longspan
