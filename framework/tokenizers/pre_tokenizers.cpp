#include "framework/tokenizers/pre_tokenizers.h"

#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"
#include "framework/tokenizers/pattern.h"

namespace longspan {
namespace {

constexpr std::string_view known_pre_tokenizers =
    "ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, BertPreTokenizer, Punctuation, "
    "Digits, CharDelimiterSplit or Sequence";

// The treatment of matches.
enum class CutBehavior : std::uint8_t { removed, isolated, with_previous, with_next, contiguous };

CutBehavior behavior_of(const JsonCursor& json, CutBehavior otherwise) {
  if (!json.is_present()) return otherwise;
  const std::string& text = json.text();
  if (text == "Removed") return CutBehavior::removed;
  if (text == "Isolated") return CutBehavior::isolated;
  if (text == "MergedWithPrevious") return CutBehavior::with_previous;
  if (text == "MergedWithNext") return CutBehavior::with_next;
  if (text == "Contiguous") return CutBehavior::contiguous;
  json.unknown("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

// As PatternScan; each character of the class is a match.
class KindScan {
 public:
  KindScan(bool (*is_of_kind)(char32_t), std::string_view text)
      : is_of_kind_(is_of_kind), text_(text) {}
  bool next(PatternSpan& span) {
    if (at_ == text_.size()) return false;
    span = {at_, at_, false};
    while (at_ < text_.size()) {
      const NextCharacter character = next_character(text_.substr(at_));
      const bool is_of_kind = is_of_kind_(character.code_point);
      if (is_of_kind && at_ > span.begin) break;
      at_ += character.width;
      span.end = at_;
      span.is_match = is_of_kind;
      if (is_of_kind) break;
    }
    return true;
  }

 private:
  bool (*is_of_kind_)(char32_t);
  std::string_view text_;
  std::size_t at_ = 0;
};

// Matches are runs of characters of one class.
class RunScan {
 public:
  RunScan(int (*kind_of)(char32_t), std::string_view text) : kind_of_(kind_of), text_(text) {}
  bool next(PatternSpan& span) {
    if (at_ == text_.size()) return false;
    span.begin = at_;
    const int kind = kind_of_(next_character(text_.substr(at_)).code_point);
    while (at_ < text_.size()) {
      const NextCharacter character = next_character(text_.substr(at_));
      if (kind_of_(character.code_point) != kind) break;
      at_ += character.width;
    }
    span.end = at_;
    span.is_match = kind != 0;
    return true;
  }

 private:
  int (*kind_of_)(char32_t);
  std::string_view text_;
  std::size_t at_ = 0;
};

template <typename Scan>
void cut_at(Scan& scan,
            const TextPiece& piece,
            CutBehavior behavior,
            bool inverted,
            const PieceSink& sink) {
  PatternSpan held;  // the next span may be joined to it
  bool holds = false;
  const auto give = [&] {
    if (holds && held.begin < held.end) sink(piece.part(held.begin, held.end));
    holds = false;
  };
  PatternSpan span;
  while (scan.next(span)) {
    if (inverted) span.is_match = !span.is_match;
    if (behavior == CutBehavior::removed && span.is_match) continue;
    const bool joins =
        holds && ((behavior == CutBehavior::contiguous && held.is_match == span.is_match) ||
                  (behavior == CutBehavior::with_previous && span.is_match && !held.is_match) ||
                  (behavior == CutBehavior::with_next && !span.is_match && held.is_match));
    if (joins) {
      held.end = span.end;
      // A joined pair takes no further span.
      held.is_match = span.is_match;
    } else {
      give();
      held = span;
      holds = true;
    }
  }
  give();
}

PreTokenizer at_pattern(TextPattern pattern, CutBehavior behavior, bool inverted) {
  return [pattern = std::move(pattern), behavior, inverted](const TextPiece& piece,
                                                            const PieceSink& sink) {
    PatternScan scan(pattern, piece.text);
    cut_at(scan, piece, behavior, inverted, sink);
  };
}

PreTokenizer at_kind(bool (*is_of_kind)(char32_t), CutBehavior behavior) {
  return [is_of_kind, behavior](const TextPiece& piece, const PieceSink& sink) {
    KindScan scan(is_of_kind, piece.text);
    cut_at(scan, piece, behavior, false, sink);
  };
}

// Splits into runs of word characters and runs of other non-space characters.
void cut_words(const TextPiece& piece, const PieceSink& sink) {
  RunScan scan([](char32_t c) { return is_word(c) ? 1 : is_white_space(c) ? 0 : 2; }, piece.text);
  PatternSpan span;
  while (scan.next(span))
    if (span.is_match) sink(piece.part(span.begin, span.end));
}

PreTokenizer one_after_another(std::vector<PreTokenizer> steps) {
  if (steps.empty()) return {};
  if (steps.size() == 1) return std::move(steps.front());
  PreTokenizer last = std::move(steps.back());
  steps.pop_back();
  return [first = one_after_another(std::move(steps)), last = std::move(last)](
             const TextPiece& piece, const PieceSink& sink) {
    first(piece, [&](const TextPiece& part) { last(part, sink); });
  };
}

PreTokenizer with_space_before() {
  return [](const TextPiece& piece, const PieceSink& sink) {
    if (piece.text.starts_with(' ')) return sink(piece);
    AlignedWriter writer(piece);
    writer.put(" ", 0);
    writer.copy_span(0, piece.text.size());
    const AlignedText text = std::move(writer).take();
    sink(text.piece());
  };
}

void write_byte_letters(const TextPiece& piece, const PieceSink& sink) {
  AlignedWriter writer(piece);
  for (std::size_t i = 0; i < piece.text.size(); ++i)
    writer.put(to_byte_letters(piece.text.substr(i, 1)), i + 1);
  const AlignedText text = std::move(writer).take();
  sink(text.piece());
}

PreTokenizer read_byte_level(const JsonCursor& json, bool leaves_bytes) {
  std::vector<PreTokenizer> steps;
  if (json["add_prefix_space"].flag(true)) steps.push_back(with_space_before());
  if (json["use_regex"].flag(true))
    steps.push_back(at_pattern(
        TextPattern::regex(gpt2_expression, json.place()), CutBehavior::isolated, false));
  if (!leaves_bytes) steps.emplace_back(write_byte_letters);
  return one_after_another(std::move(steps));
}

// Replaces spaces with a character that begins words (Kudo and Richardson 2018).
PreTokenizer read_metaspace(const JsonCursor& json) {
  const JsonCursor replacement = json["replacement"];
  const std::string letter = replacement.is_present() ? utf8_of(replacement.character()) : "\u2581";
  std::string scheme = json["add_prefix_space"].flag(true) ? "always" : "never";
  const JsonCursor prepend = json["prepend_scheme"];
  if (prepend.is_present()) scheme = prepend.text();
  if (scheme != "always" && scheme != "never" && scheme != "first")
    prepend.unknown("always, first or never");
  PreTokenizer cut;
  if (json["split"].flag(true))
    cut = at_pattern(TextPattern::literal(letter), CutBehavior::with_next, false);
  return [letter, scheme, cut](const TextPiece& piece, const PieceSink& sink) {
    const bool begins_so = piece.text.starts_with(' ') || piece.text.starts_with(letter);
    const bool prepends = scheme == "always" || (scheme == "first" && piece.begin == 0);
    AlignedWriter writer(piece);
    if (prepends && !begins_so) writer.put(letter, 0);
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t space = std::min(piece.text.find(' ', at), piece.text.size());
      writer.copy_span(at, space);
      if (space < piece.text.size()) writer.put(letter, space + 1);
      at = space + 1;
    }
    const AlignedText text = std::move(writer).take();
    if (cut)
      cut(text.piece(), sink);
    else
      sink(text.piece());
  };
}

PreTokenizer read_one(const JsonCursor& json, bool leaves_bytes) {
  const JsonCursor type = json["type"];
  const std::string& kind = type.text();
  if (kind == "ByteLevel") return read_byte_level(json, leaves_bytes);
  if (kind == "Metaspace") return read_metaspace(json);
  if (kind == "Split")
    return at_pattern(TextPattern::from_json(json["pattern"]),
                      behavior_of(json["behavior"], CutBehavior::isolated),
                      json["invert"].flag(false));
  if (kind == "CharDelimiterSplit")
    return at_pattern(
        TextPattern::literal(utf8_of(json["delimiter"].character())), CutBehavior::removed, false);
  if (kind == "Digits")
    return at_kind(
        is_number,
        json["individual_digits"].flag(false) ? CutBehavior::isolated : CutBehavior::contiguous);
  if (kind == "Punctuation")
    return at_kind(is_punctuation, behavior_of(json["behavior"], CutBehavior::isolated));
  if (kind == "Whitespace") return cut_words;
  if (kind == "WhitespaceSplit") return at_kind(is_white_space, CutBehavior::removed);
  if (kind == "BertPreTokenizer")
    return one_after_another({at_kind(is_white_space, CutBehavior::removed),
                              at_kind(is_punctuation, CutBehavior::isolated)});
  type.unknown(known_pre_tokenizers);
}

// Flattens nested sequences of steps.
void add_steps(const JsonCursor& json, std::vector<JsonCursor>& steps) {
  if (!json["type"].is_present() || json["type"].text() != "Sequence") {
    steps.push_back(json);
    return;
  }
  const JsonCursor list = json["pretokenizers"];
  for (std::size_t i = 0; i < list.size(); ++i) add_steps(list[i], steps);
}

}  // namespace

ReadPreTokenizer read_pre_tokenizer(const JsonCursor& json, bool leaves_bytes) {
  if (!json.is_present()) return {};
  std::vector<JsonCursor> places;
  add_steps(json, places);
  ReadPreTokenizer read;
  std::vector<PreTokenizer> steps;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool is_last = i + 1 == places.size();
    read.ends_in_bytes = is_last && leaves_bytes && places[i]["type"].text() == "ByteLevel";
    if (PreTokenizer step = read_one(places[i], read.ends_in_bytes))
      steps.push_back(std::move(step));
  }
  read.cut = one_after_another(std::move(steps));
  return read;
}

}  // namespace longspan
