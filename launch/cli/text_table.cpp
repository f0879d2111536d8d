#include "launch/cli/text_table.h"

#include <algorithm>
#include <cstdio>

#include "framework/core/format.h"
#include "framework/core/span.h"

namespace longspan {
namespace {

// Returns terminal columns, one for each UTF-8 character.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

}  // namespace

std::string on_one_line(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = [&](std::size_t place) {
      return place < text.size() ? static_cast<unsigned char>(text[place]) : 0u;
    };
    // U+0080 to U+009F, of which U+009B starts a terminal escape sequence as ESC does.
    const bool is_long_control = byte(i) == 0xc2u && byte(i + 1) >= 0x80u && byte(i + 1) < 0xa0u;
    const bool is_control = is_long_control || byte(i) < 0x20u || byte(i) == 0x7fu;
    line += is_control ? '?' : text[i];
    if (is_long_control) ++i;
  }
  return line;
}

std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += on_one_line(row[i]) + std::string(widths[i] - width_of(row[i]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

ReadProgress reading_progress(const std::string& name, const Session& session) {
  constexpr double seconds_between = 5;
  if (session.world().rank() != 0) return {};
  return
      [name, since = Stopwatch(), read = std::int64_t{0}, told = 0.0](std::int64_t bytes) mutable {
        read += bytes;
        if (since.seconds() < told + seconds_between) return;
        told = since.seconds();
        std::fprintf(stderr,
                     "longspan: %s: rank 0 has read %s\n",
                     name.c_str(),
                     format_bytes(static_cast<double>(read)).c_str());
      };
}

}  // namespace longspan
