#include "framework/tokenizers/normalizers.h"

#include "framework/core/error.h"
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

bool is_within_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin > 0 && is_word(character_before(text, begin))) ||
         (end < text.size() && is_word(next_character(text.substr(end)).code_point));
}

std::size_t without_blanks_before(std::string_view text, std::size_t begin, std::size_t least) {
  while (begin > least) {
    const char32_t before = character_before(text, begin);
    if (!is_white_space(before)) break;
    begin -= utf8_of(before).size();
  }
  return begin;
}

std::size_t past_blanks(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const NextCharacter next = next_character(text.substr(end));
    if (!is_white_space(next.code_point)) break;
    end += next.width;
  }
  return end;
}

}  // namespace

AlignedText::AlignedText(const TextPiece& piece)
    : text_(piece.text), begin_(piece.begin), base_(piece.base) {
  if (piece.ends != nullptr) ends_.assign(piece.ends, piece.ends + piece.text.size());
}

AlignedWriter::AlignedWriter(const TextPiece& from)
    : from_(from), to_(TextPiece{{}, from.begin, nullptr, from.begin}) {
  const std::int64_t bytes = from.end_of(from.text.size()) - from.begin;
  if (bytes > UINT32_MAX)
    throw DataError("a chunk of {} bytes, which the tokenizer normalizes as a whole, is too long",
                    bytes);
  to_.text_.reserve(from.text.size());
  to_.ends_.reserve(from.text.size());
}

void AlignedWriter::copy_span(std::size_t begin, std::size_t end) {
  // Excludes previously removed text.
  if (to_.text_.empty()) to_.begin_ = from_.end_of(begin);
  to_.text_.append(from_.text.substr(begin, end - begin));
  for (std::size_t i = begin; i < end; ++i) to_.ends_.push_back(place(i + 1));
}

void AlignedWriter::put(std::string_view text, std::size_t end) {
  to_.text_.append(text);
  to_.ends_.insert(to_.ends_.end(), text.size(), place(end));
}

AlignedText AlignedWriter::take() && { return std::move(to_); }

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

std::vector<AddedToken> read_added_tokens(const JsonCursor& json) {
  std::vector<AddedToken> tokens;
  if (!json.is_present()) return tokens;
  if (!json.is_list()) json.throw_data_error("a list of tokens");
  for (std::size_t i = 0; i < json.size(); ++i) {
    const JsonCursor entry = json[i];
    AddedToken& token = tokens.emplace_back();
    token.id = static_cast<std::int32_t>(entry["id"].integer(0, (1 << 24) - 1));
    token.content = entry["content"].text();
    token.is_special = entry["special"].flag(false);
    token.is_single_word = entry["single_word"].flag(false);
    token.strips_left = entry["lstrip"].flag(false);
    token.strips_right = entry["rstrip"].flag(false);
    token.is_normalized = entry["normalized"].flag(!token.is_special);
  }
  return tokens;
}

AddedTokenFinder::AddedTokenFinder(const std::vector<AddedToken>& tokens,
                                   bool normalized,
                                   const TextNormalizer& normalizer) {
  for (const AddedToken& token : tokens) {
    if (token.is_normalized != normalized || token.content.empty()) continue;
    std::string content = token.content;
    if (normalized && normalizer) content = normalizer(TextPiece{token.content}).text();
    if (content.empty()) continue;
    tree_.add(content, static_cast<std::int32_t>(tokens_.size()));
    begins_[static_cast<unsigned char>(content.front())] = true;
    tokens_.push_back(token);
  }
}

std::int32_t AddedTokenFinder::longest_at(std::string_view text,
                                          std::size_t at,
                                          std::size_t& bytes) const {
  std::int32_t found = -1;
  tree_.for_each_prefix(text.substr(at), [&](std::size_t width, std::int32_t place) {
    found = place;
    bytes = width;
  });
  return found;
}

void AddedTokenFinder::cut(std::string_view text, const Listener& listener) const {
  std::size_t given = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    std::size_t bytes = 0;
    const std::int32_t place = longest_at(text, at, bytes);
    if (place < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(place)];
    std::size_t begin = at;
    std::size_t end = at + bytes;
    at = end;
    if (token.is_single_word && is_within_word(text, begin, end)) continue;
    if (token.strips_left) begin = without_blanks_before(text, begin, given);
    if (token.strips_right) end = past_blanks(text, end);
    if (given < begin) listener(given, begin, nullptr);
    // Blanks already consumed by another token may begin this one; its span includes them.
    listener(begin, end, &token);
    given = end;
  }
  if (given < text.size()) listener(given, text.size(), nullptr);
}

}  // namespace longspan
