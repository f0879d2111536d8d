#include <utf8proc.h>

#include <cstring>
#include <memory>

#include "framework/core/error.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/normalizers.h"

namespace longspan {
namespace {

constexpr std::size_t max_cluster_size =
    6;  // maximum bytes of a cluster that is looked up as a unit

int sextet(char letter) {
  if (letter >= 'A' && letter <= 'Z') return letter - 'A';
  if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
  if (letter >= '0' && letter <= '9') return letter - '0' + 52;
  if (letter == '+') return 62;
  return letter == '/' ? 63 : -1;
}

std::string from_base64(const JsonCursor& json) {
  std::string_view text = json.text();
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const int value = sextet(letter);
    if (value < 0) json.throw_data_error("bytes in base64");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return bytes;
}

// A double-array trie (Aoe 1989) in darts-clone's format, and the strings it refers to.
class Replacements {
 public:
  explicit Replacements(const JsonCursor& json) {
    const std::string bytes = from_base64(json);
    std::uint32_t size = 0;
    if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
    if (bytes.size() < sizeof(size) + size || size % sizeof(std::uint32_t) != 0 || size == 0)
      json.throw_data_error("a table of replacements in base64");
    units_.resize(size / sizeof(std::uint32_t));
    std::memcpy(units_.data(), bytes.data() + sizeof(size), size);
    texts_ = bytes.substr(sizeof(size) + size);
    if (valid_utf8_bytes(texts_) != texts_.size()) json.throw_data_error("replacements in UTF-8");
  }

  // Returns the replacement of the shortest entry that is a prefix of `text`, or null.
  const char* find(std::string_view text) const {
    std::size_t node = offset_of(units_[0]);
    for (const char letter : text) {
      const auto byte = static_cast<unsigned char>(letter);
      if (byte == 0) return nullptr;
      node ^= byte;
      if (node >= units_.size()) return nullptr;
      const std::uint32_t unit = units_[node];
      if ((unit & 0x800000FFU) != byte) return nullptr;
      node ^= offset_of(unit);
      if ((unit >> 8 & 1U) == 0) continue;
      const std::size_t value = node < units_.size() ? units_[node] & 0x7FFFFFFFU : SIZE_MAX;
      // An offset within a character would yield invalid UTF-8.
      const bool starts_character =
          value < texts_.size() && (static_cast<unsigned char>(texts_[value]) & 0xC0) != 0x80;
      return starts_character ? texts_.c_str() + value : nullptr;
    }
    return nullptr;
  }

 private:
  static std::size_t offset_of(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200U) >> 6);
  }

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

// Returns the end of the grapheme cluster (UAX 29) at `at`.
std::size_t cluster_end(std::string_view text, std::size_t at) {
  NextCharacter before = next_character(text.substr(at));
  std::size_t end = at + before.width;
  utf8proc_int32_t state = 0;
  while (end < text.size()) {
    const NextCharacter next = next_character(text.substr(end));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before.code_point),
                                         static_cast<utf8proc_int32_t>(next.code_point),
                                         &state))
      break;
    end += next.width;
    before = next;
  }
  return end;
}

AlignedText replaced(const TextPiece& piece, const Replacements& replacements) {
  AlignedWriter writer(piece);
  const auto put = [&](std::size_t begin, std::size_t end) {
    const char* const found = replacements.find(piece.text.substr(begin, end - begin));
    if (found != nullptr) writer.put(found, end);
    return found != nullptr;
  };
  for (std::size_t at = 0; at < piece.text.size();) {
    const std::size_t end = cluster_end(piece.text, at);
    if (end - at >= max_cluster_size || !put(at, end)) {
      for (std::size_t begin = at; begin < end;) {
        const std::size_t next = begin + next_character(piece.text.substr(begin)).width;
        if (!put(begin, next)) writer.copy_span(begin, next);
        begin = next;
      }
    }
    at = end;
  }
  return std::move(writer).take();
}

}  // namespace

TextNormalizer read_precompiled(const JsonCursor& json) {
  if (!json.is_present()) json.throw_data_error("a table of replacements");
  if (json.text().empty()) return {};
  return [table = std::make_shared<const Replacements>(json)](const TextPiece& piece) {
    return replaced(piece, *table);
  };
}

}  // namespace longspan
