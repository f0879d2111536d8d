#include "framework/core/format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <vector>

namespace longspan {

std::string pluralize(std::int64_t count, std::string_view noun, std::string_view plural) {
  if (count == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}

std::string format_bytes(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  if (bytes >= 1e3) return fmt::format("{:.1f} kB", bytes / 1e3);
  return fmt::format("{:.0f} bytes", bytes);
}

namespace {

// Returns the start of the bracket that ends at `end`, or npos.
std::size_t begin_of_bracket(std::string_view text, std::size_t end, char opens, char closes) {
  int depth = 0;
  for (std::size_t i = end + 1; i-- > 0;) {
    if (text[i] == closes) ++depth;
    if (text[i] == opens && --depth == 0) return i;
  }
  return text.npos;
}

// Extracts "longspan::Trainer::agree" from "longspan::Trainer::Sums longspan::Trainer::agree(int)
// const".
std::string_view qualified_name(std::string_view words) {
  for (const std::string_view lambda : {"::<lambda", "::(lambda", "::(anonymous class)"})
    words = words.substr(0, words.find(lambda));
  words = words.substr(0, words.find(" [with "));
  if (const std::size_t end = words.rfind(')'); end != words.npos) {
    const std::size_t begin = begin_of_bracket(words, end, '(', ')');
    if (begin != words.npos) words = words.substr(0, begin);
  }
  if (words.ends_with('>')) {
    const std::size_t begin = begin_of_bracket(words, words.size() - 1, '<', '>');
    if (begin != words.npos) words = words.substr(0, begin);
  }
  int depth = 0;  // a blank within brackets does not end the name
  for (std::size_t i = words.size(); i-- > 0;) {
    const char letter = words[i];
    depth += letter == '>' || letter == '}' || letter == ')' ? 1 : 0;
    depth -= letter == '<' || letter == '{' || letter == '(' ? 1 : 0;
    if (letter == ' ' && depth == 0) return words.substr(i + 1);
  }
  return words;
}

// Splits the name at "::" outside of brackets.
std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' || name[i] == '{' ? 1 : 0;
    depth -= name[i] == '>' || name[i] == '}' ? 1 : 0;
    if (depth > 0 || !name.substr(i).starts_with("::")) continue;
    parts.push_back(name.substr(begin, i - begin));
    begin = i + 2;
  }
  parts.push_back(name.substr(begin));
  return parts;
}

}  // namespace

std::string format_source_location(const std::source_location& place) {
  std::string_view file = place.file_name();
  std::size_t begin = 0;
  for (const std::string_view top : {"framework/", "models/", "checkpoints/", "launch/", "tests/"})
    for (auto at = file.rfind(top); at != file.npos && at > begin; at = file.npos)
      if (file[at - 1] == '/') begin = at;
  return fmt::format("{}:{}", file.substr(begin), place.line());
}

std::string short_function_name(std::string_view words) {
  const std::vector<std::string_view> parts = parts_of(qualified_name(words));
  const std::string_view last = parts.back();
  if (parts.size() < 2) return std::string(last);
  // By convention types are capitalized and namespaces are not.
  std::string_view type = parts[parts.size() - 2];
  type = type.substr(0, type.find('<'));
  const bool is_member =
      !type.empty() && std::isupper(static_cast<unsigned char>(type.front())) != 0;
  if (!is_member) return std::string(last);
  if (last == "operator()" || last == type) return std::string(type);
  return fmt::format("{}::{}", type, last);
}

std::string join_first(std::span<const std::string> names) {
  constexpr std::size_t most = 3;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.first(most), ", "), names.size() - most);
}

}  // namespace longspan
