#include "framework/tokenizers/normalizers.h"

#include <vector>

#include "framework/tokenizers/byte_to_unicode.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/pattern.h"

namespace longspan {
namespace {

constexpr std::string_view known_normalizers =
    "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, BertNormalizer, Strip, Replace, Prepend, Nmt, "
    "ByteLevel, Precompiled or Sequence";

// f(character, text) appends the replacement of a character; false: unchanged.
template <typename F>
AlignedText by_character(const TextPiece& piece, F&& f) {
  AlignedWriter writer(piece);
  std::string text;
  for (std::size_t at = 0; at < piece.text.size();) {
    const NextCharacter next = next_character(piece.text.substr(at));
    const std::size_t end = at + next.width;
    text.clear();
    if (f(next.code_point, text))
      writer.put(text, end);
    else
      writer.copy_span(at, end);
    at = end;
  }
  return std::move(writer).take();
}

AlignedText lowercased(const TextPiece& piece) {
  std::u32string lower;
  return by_character(piece, [&lower](char32_t c, std::string& text) {
    lower.clear();
    append_lower(lower, c);
    for (const char32_t part : lower) append_utf8(text, part);
    return true;
  });
}

AlignedText without(const TextPiece& piece, bool (*is_removed)(char32_t)) {
  return by_character(piece, [is_removed](char32_t c, std::string&) { return is_removed(c); });
}

AlignedText stripped(const TextPiece& piece, bool left, bool right) {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_blank = true;
  for (std::size_t at = 0; at < piece.text.size();) {
    const NextCharacter next = next_character(piece.text.substr(at));
    at += next.width;
    if (!is_white_space(next.code_point)) {
      is_blank = false;
      end = at;
    } else if (is_blank) {
      begin = at;
    }
  }
  AlignedWriter writer(piece);
  if (is_blank && (left || right)) return std::move(writer).take();
  writer.copy_span(left ? begin : 0, right ? end : piece.text.size());
  return std::move(writer).take();
}

AlignedText cleaned(const TextPiece& piece) {
  return by_character(piece, [](char32_t c, std::string& text) {
    if (is_control(c)) return true;
    if (is_white_space(c)) text = " ";
    return !text.empty();
  });
}

AlignedText with_chinese_apart(const TextPiece& piece) {
  return by_character(piece, [](char32_t c, std::string& text) {
    if (!is_chinese(c)) return false;
    text = " " + utf8_of(c) + " ";
    return true;
  });
}

// Characters that SentencePiece first removes or maps to a space.
AlignedText of_translation(const TextPiece& piece) {
  return by_character(piece, [](char32_t c, std::string& text) {
    const bool is_dropped = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) ||
                            c == 0x7F || c == 0x8F || c == 0x9F;
    const bool is_space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                          (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                          c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    if (is_space) text = " ";
    return is_dropped || is_space;
  });
}

AlignedText of_bytes(const TextPiece& piece) {
  AlignedWriter writer(piece);
  for (std::size_t i = 0; i < piece.text.size(); ++i)
    writer.put(to_byte_letters(piece.text.substr(i, 1)), i + 1);
  return std::move(writer).take();
}

TextNormalizer read_bert(const JsonCursor& json) {
  const bool cleans = json["clean_text"].flag(true);
  const bool parts_chinese = json["handle_chinese_chars"].flag(true);
  const bool lower = json["lowercase"].flag(true);
  const bool strips = json["strip_accents"].flag(lower);
  return [=](const TextPiece& piece) {
    AlignedText text = cleans ? cleaned(piece) : AlignedText(piece);
    if (parts_chinese) text = with_chinese_apart(text.piece());
    if (strips) {
      text = in_normal_form(text.piece(), {});
      text = without(text.piece(), is_accent);
    }
    if (lower) text = lowercased(text.piece());
    return text;
  };
}

TextNormalizer read_replace(const JsonCursor& json) {
  return [pattern = TextPattern::from_json(json["pattern"]),
          content = json["content"].text()](const TextPiece& piece) {
    AlignedWriter writer(piece);
    PatternScan scan(pattern, piece.text);
    PatternSpan span;
    while (scan.next(span)) {
      if (span.is_match)
        writer.put(content, span.end);
      else
        writer.copy_span(span.begin, span.end);
    }
    return std::move(writer).take();
  };
}

TextNormalizer read_prepend(const JsonCursor& json) {
  return [text = json["prepend"].text()](const TextPiece& piece) {
    if (piece.text.empty()) return AlignedText(piece);
    AlignedWriter writer(piece);
    writer.put(text, 0);
    writer.copy_span(0, piece.text.size());
    return std::move(writer).take();
  };
}

TextNormalizer read_sequence(const JsonCursor& json) {
  std::vector<TextNormalizer> steps;
  const JsonCursor list = json["normalizers"];
  for (std::size_t i = 0; i < list.size(); ++i) steps.push_back(read_normalizer(list[i]));
  return [steps](const TextPiece& piece) {
    AlignedText text(piece);
    for (const TextNormalizer& step : steps)
      if (step) text = step(text.piece());
    return text;
  };
}

}  // namespace

TextNormalizer read_normalizer(const JsonCursor& json) {
  if (!json.is_present()) return {};
  const JsonCursor type = json["type"];
  const std::string& kind = type.text();
  if (kind == "Sequence") return read_sequence(json);
  if (kind == "BertNormalizer") return read_bert(json);
  if (kind == "Replace") return read_replace(json);
  if (kind == "Prepend") return read_prepend(json);
  if (kind == "Precompiled") return read_precompiled(json["precompiled_charsmap"]);
  if (kind == "Lowercase") return lowercased;
  if (kind == "Nmt") return of_translation;
  if (kind == "ByteLevel") return of_bytes;
  if (kind == "StripAccents") return [](const TextPiece& piece) { return without(piece, is_mark); };
  if (kind == "Strip")
    return [left = json["strip_left"].flag(true), right = json["strip_right"].flag(true)](
               const TextPiece& piece) { return stripped(piece, left, right); };
  for (const auto& [name, form] : {std::pair("NFC", NormalForm{true, false}),
                                   std::pair("NFD", NormalForm{false, false}),
                                   std::pair("NFKC", NormalForm{true, true}),
                                   std::pair("NFKD", NormalForm{false, true})})
    if (kind == name)
      return [wanted = form](const TextPiece& piece) { return in_normal_form(piece, wanted); };
  type.unknown(known_normalizers);
}

}  // namespace longspan
