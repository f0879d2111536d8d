#include <algorithm>
#include <vector>

#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/normalizers.h"

namespace longspan {
namespace {

struct Part {
  char32_t character = 0;
  int order = 0;
  std::size_t end = 0;  // of what it comes from
};

// Marks are put into order behind each character, those of one order as they came.
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
      // Nothing of the same order or without one may stand between the two.
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

// Whether every character stays as it is, whatever is beside it.
bool is_plain(std::string_view text, NormalForm form) {
  const bool latin = form.composes && !form.compatible;
  while (!text.empty()) {
    const NextCharacter next = next_character(text);
    if (next.code_point >= (latin ? 0x300U : 0x80U)) return false;
    text.remove_prefix(next.width);
  }
  return true;
}

}  // namespace

AlignedText in_normal_form(const TextPiece& piece, NormalForm form) {
  if (is_plain(piece.text, form)) return AlignedText(piece);
  std::vector<Part> parts;
  parts.reserve(piece.text.size());
  std::u32string decomposed;
  for (std::size_t at = 0; at < piece.text.size();) {
    const NextCharacter next = next_character(piece.text.substr(at));
    at += next.width;
    decomposed.clear();
    append_decomposed(decomposed, next.code_point, form.compatible);
    for (const char32_t character : decomposed)
      parts.push_back({character, mark_order(character), at});
  }
  put_in_order(parts);
  if (form.composes) compose(parts);
  AlignedWriter writer(piece);
  std::string utf8;
  std::size_t end = 0;
  for (const Part& part : parts) {
    utf8.clear();
    append_utf8(utf8, part.character);
    end = std::max(end, part.end);
    writer.put(utf8, end);
  }
  return std::move(writer).take();
}

}  // namespace longspan
