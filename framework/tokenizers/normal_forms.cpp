#include <algorithm>
#include <vector>

#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"
#include "framework/tokenizers/normalizers.h"

namespace longspan {
namespace {

struct Part {
  char32_t character = 0;
  int order = 0;
  std::size_t end = 0;  // end of its source
};

// Sorts marks after each character stably by combining class (canonical ordering).
void put_in_order(std::vector<Part>& parts) {
  for (auto begin = parts.begin(); begin != parts.end();) {
    begin = std::find_if(begin, parts.end(), [](const Part& part) { return part.order > 0; });
    const auto end =
        std::find_if(begin, parts.end(), [](const Part& part) { return part.order == 0; });
    if (!std::is_sorted(begin, end, [](const Part& a, const Part& b) { return a.order < b.order; }))
      std::stable_sort(begin, end, [](const Part& a, const Part& b) { return a.order < b.order; });
    begin = end;
  }
}

void compose(std::vector<Part>& parts) {
  std::size_t written = 0;
  std::size_t starter = SIZE_MAX;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part part = parts[i];
    if (starter != SIZE_MAX) {
      // A character between the two with an equal or zero combining class blocks the composition.
      const bool is_next = written == starter + 1;
      const int between = is_next ? -1 : parts[written - 1].order;
      if (is_next || (between < part.order && between != 0)) {
        if (const char32_t whole = composed(parts[starter].character, part.character)) {
          parts[starter].character = whole;
          parts[starter].end = std::max(parts[starter].end, part.end);
          continue;
        }
      }
    }
    if (part.order == 0) starter = written;
    parts[written++] = part;
  }
  parts.resize(written);
}

// Returns the end of the bytes from `at` on that normalization leaves unchanged in any context.
std::size_t plain_end(std::string_view text, std::size_t at, NormalForm form) {
  const char32_t limit = form.composes && !form.compatible ? 0x300U : 0x80U;
  while (at < text.size()) {
    const NextCharacter next = next_character(text.substr(at));
    if (next.code_point >= limit) break;
    at += next.width;
  }
  return at;
}

// Returns the first character, at least `least` bytes after `at`, for which has_boundary_before
// holds, or the end.
std::size_t section_end(std::string_view text, std::size_t at) {
  constexpr std::size_t least = 256;
  for (const std::size_t begin = at; at < text.size();) {
    const NextCharacter next = next_character(text.substr(at));
    if (at >= begin + least && has_boundary_before(next.code_point)) break;
    at += next.width;
  }
  return at;
}

void put_section(std::string_view text,
                 std::size_t begin,
                 std::size_t end,
                 NormalForm form,
                 std::vector<Part>& parts,
                 AlignedWriter& writer) {
  parts.clear();
  std::u32string decomposed;
  for (std::size_t at = begin; at < end;) {
    const NextCharacter next = next_character(text.substr(at));
    at += next.width;
    decomposed.clear();
    append_decomposed(decomposed, next.code_point, form.compatible);
    for (const char32_t character : decomposed)
      parts.push_back({character, mark_order(character), at});
  }
  put_in_order(parts);
  if (form.composes) compose(parts);
  std::string utf8;
  std::size_t reached = begin;
  for (const Part& part : parts) {
    utf8.clear();
    append_utf8(utf8, part.character);
    reached = std::max(reached, part.end);
    writer.put(utf8, reached);
  }
}

}  // namespace

AlignedText in_normal_form(const TextPiece& piece, NormalForm form) {
  const std::string_view text = piece.text;
  if (plain_end(text, 0, form) == text.size()) return AlignedText(piece);
  AlignedWriter writer(piece);
  std::vector<Part> parts;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t begin = plain_end(text, at, form);
    // The last unchanged character may compose with the next one.
    if (begin > at && begin < text.size()) begin = previous_character(text, begin);
    writer.copy_span(at, begin);
    at = begin < text.size() ? section_end(text, begin) : begin;
    put_section(text, begin, at, form, parts, writer);
  }
  return std::move(writer).take();
}

}  // namespace longspan
