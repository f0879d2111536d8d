#include "framework/data/tokenization/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>
#include <new>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/quote.h"
#include "framework/core/utf8.h"
#include "framework/data/atomic_file.h"
#include "framework/data/corpus/lines.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"
#include "framework/tokenizers/slow_tokenizer.h"

namespace longspan {
namespace {

constexpr std::int64_t max_model_bytes = std::int64_t{1} << 30;
// For a line on which the library fails. Each cut costs one pass over the line.
constexpr int max_cuts = 16;
// Minimum bytes of a part of a text. Older library versions round unigram sums; short parts produce
// the ids that newer versions assign to the entire text.
constexpr std::size_t part_bytes = 1024;

std::int64_t find_line_end(const sentencepiece::SentencePieceProcessor& processor) {
  for (const char* piece : {"\n", "<0x0A>"}) {
    const int id = processor.PieceToId(piece);
    if (!processor.IsUnknown(id) && processor.IdToPiece(id) == piece) return id;
  }
  return processor.eos_id();
}

// Returns whether no piece has a space after another character. Then the texts before and after a
// space are encoded independently.
bool starts_pieces_at_spaces(const SentencePieceFile& file) {
  const auto is_within = [](const std::string& piece) {
    const std::size_t text = piece.find_first_not_of(space_letter);
    return piece.find(' ') != std::string::npos ||
           (text != std::string::npos && piece.find(space_letter, text) != std::string::npos);
  };
  const auto has_space_within = [&](const SentencePieceFile::Piece& piece) {
    return is_within(piece.text);
  };
  return file.escape_whitespaces && !file.space_as_suffix &&
         (file.add_dummy_prefix || !file.remove_extra_whitespaces) &&
         std::ranges::count(file.pieces, space_letter, &SentencePieceFile::Piece::text) > 0 &&
         std::ranges::none_of(file.pieces, has_space_within);
}

// Returns whether encoding line by line equals encoding the entire text.
bool encodes_by_lines(const SentencePieceFile& file) {
  return file.precompiled_charsmap.empty() && !file.add_dummy_prefix &&
         !file.remove_extra_whitespaces && file.byte_fallback &&
         std::ranges::none_of(file.pieces, [](const SentencePieceFile::Piece& piece) {
           return piece.text.find('\n') != std::string::npos;
         });
}

// Returns whether the normalizer maps a newline to a space.
bool has_newline_as_space(const sentencepiece::SentencePieceProcessor& processor) {
  return processor.EncodeAsIds("a\nb") == processor.EncodeAsIds("a b");
}

// General category L or N: \w without marks and punctuation such as "_".
bool is_letter_or_digit(char32_t c) {
  return is_number(c) || (is_word(c) && !is_mark(c) && !is_punctuation(c));
}

// For some corrupt models the library throws its own exception, which can also indicate a failed
// allocation.
bool loads(sentencepiece::SentencePieceProcessor& processor, const std::string& bytes) {
  try {
    return processor.LoadFromSerializedProto(bytes).ok() && processor.GetPieceSize() > 0;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    if (std::string_view(error.what()).ends_with("bad_alloc")) throw std::bad_alloc();
    return false;
  }
}

}  // namespace

struct SentencePieceModel::Loaded {
  std::string bytes;
  sentencepiece::SentencePieceProcessor processor;
  std::int64_t line_end = -1;
  bool encodes_lines = true;
  bool reads_by_parts = false;
  bool adds_space = false;  // prepended to a text
  bool has_newline_as_space = false;

  bool is_space(char c) const { return c == ' ' || (c == '\n' && has_newline_as_space); }

  // Appends the tokens of the line; returns false where the library fails.
  bool encode(std::string_view line, std::vector<SubwordToken>& tokens) const;
  // Returns whether the first word was encoded as the byte piece of that name.
  bool mistakes_symbol(std::string_view line, const SubwordToken& first) const;
};

std::string_view name_of(SentencePieceModelType kind) {
  switch (kind) {
    case SentencePieceModelType::unigram:
      return "unigram";
    case SentencePieceModelType::bpe:
      return "bpe";
    case SentencePieceModelType::characters:
      return "char";
    case SentencePieceModelType::words:
      return "word";
    case SentencePieceModelType::word_pieces:
      return "wordpiece";
  }
  throw Failure("unnamed SentencePiece model type");
}

SentencePieceModel::SentencePieceModel(std::string bytes, const std::string& place) {
  auto loaded = std::make_shared<Loaded>();
  loaded->bytes = std::move(bytes);
  if (!loads(loaded->processor, loaded->bytes))
    throw DataError("{}: expected a SentencePiece model (a .model file)", place);
  loaded->line_end = find_line_end(loaded->processor);
  if (const auto file = read_sentencepiece_file(loaded->bytes)) {
    loaded->encodes_lines = loaded->line_end >= 0 && encodes_by_lines(*file);
    loaded->reads_by_parts = starts_pieces_at_spaces(*file);
    loaded->adds_space = file->add_dummy_prefix;
    loaded->has_newline_as_space = has_newline_as_space(loaded->processor);
  } else {
    loaded->encodes_lines = loaded->line_end >= 0;
  }
  loaded_ = std::move(loaded);
}

const std::string& SentencePieceModel::bytes() const { return loaded_->bytes; }

std::int64_t SentencePieceModel::vocabulary() const { return loaded_->processor.GetPieceSize(); }

std::int64_t SentencePieceModel::line_end() const { return loaded_->line_end; }

bool SentencePieceModel::encodes_lines() const { return loaded_->encodes_lines; }

bool SentencePieceModel::supports_chunking() const { return loaded_->reads_by_parts; }

// No normalizer rule spans a space and the letter after it. The character before may be a mark or
// punctuation, as at the end of a line. It may not be a space, which could merge with this one.
std::size_t SentencePieceModel::chunk_boundary(std::string_view text, std::size_t least) const {
  if (!loaded_->reads_by_parts) return std::string_view::npos;
  for (std::size_t at = std::max<std::size_t>(least, 1); at + 1 < text.size(); ++at) {
    if (!loaded_->is_space(text[at])) continue;
    const char32_t before = character_before(text, at);
    const bool ends_word = is_letter_or_digit(before) || is_mark(before) || is_punctuation(before);
    if (ends_word && is_letter_or_digit(next_character(text.substr(at + 1)).code_point)) return at;
  }
  return std::string_view::npos;
}

void SentencePieceModel::encode(std::string_view text,
                                bool is_continuation,
                                const std::function<void(const SubwordToken&)>& sink) const {
  while (!text.empty()) {
    const bool is_long = loaded_->reads_by_parts && text.size() > max_part_bytes;
    const std::string_view looked_at =
        is_long ? text.substr(0, previous_character(text, max_part_bytes)) : text;
    std::size_t end = chunk_boundary(looked_at, part_bytes);
    if (end == std::string_view::npos && is_long) end = cut_of(text, max_part_bytes);
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(part.size());
    // The model prepends the space of a later part again.
    const std::int64_t dropped =
        is_continuation && loaded_->adds_space && loaded_->is_space(part.front()) ? 1 : 0;
    auto tokens = encode_line(part.substr(static_cast<std::size_t>(dropped)));
    if (!tokens.empty()) tokens.front().bytes += dropped;
    for (const SubwordToken& token : tokens) sink(token);
    is_continuation = true;
  }
}

std::int64_t SentencePieceModel::sentence_begin() const { return loaded_->processor.bos_id(); }

std::int64_t SentencePieceModel::sentence_end() const { return loaded_->processor.eos_id(); }

std::string SentencePieceModel::piece(std::int64_t id) const {
  return loaded_->processor.IdToPiece(static_cast<int>(id));
}

std::int64_t SentencePieceModel::id_of(const std::string& piece) const {
  const int id = loaded_->processor.PieceToId(piece);
  return loaded_->processor.IdToPiece(id) == piece ? id : -1;
}

bool SentencePieceModel::Loaded::encode(std::string_view line,
                                        std::vector<SubwordToken>& tokens) const {
  sentencepiece::ImmutableSentencePieceText pieces;
  if (!processor.Encode(line, pieces.mutable_proto()).ok()) return false;
  std::int64_t at = 0;
  for (const auto& piece : pieces.pieces()) {
    const std::int64_t end = std::max<std::int64_t>(at, piece.end());
    tokens.push_back({piece.id(), end - at});
    at = end;
  }
  // Bytes dropped from the end of a line.
  if (!tokens.empty()) tokens.back().bytes += static_cast<std::int64_t>(line.size()) - at;
  return true;
}

bool SentencePieceModel::Loaded::mistakes_symbol(std::string_view line,
                                                 const SubwordToken& first) const {
  const int id = static_cast<int>(first.id);
  const std::string_view word = line.substr(0, line.find(' '));
  return processor.IsByte(id) && processor.IdToPiece(id) == word &&
         first.bytes == static_cast<std::int64_t>(word.size());
}

std::vector<SubwordToken> SentencePieceModel::encode_line(std::string_view line) const {
  std::vector<SubwordToken> tokens;
  // Separate tokens, so that the bytes of earlier ones do not change.
  const auto add = [&](std::string_view text) {
    std::vector<SubwordToken> more;
    if (!loaded_->encode(text, more)) return false;
    if (!more.empty() && loaded_->mistakes_symbol(text, more.front())) return false;
    tokens.insert(tokens.end(), more.begin(), more.end());
    return true;
  };
  // Word models map a first word such as "</s>" or "<0x0A>" to the symbol of that name. Such a word
  // is therefore encoded in two pieces. The rest may begin the same way, but no model has many such
  // words.
  std::string_view rest = line;
  int cuts = 0;
  for (; !add(rest); ++cuts) {
    const std::size_t width = rest.empty() ? 0 : static_cast<std::size_t>(decode_utf8(rest).width);
    if (width == rest.size() || cuts == max_cuts || !add(rest.substr(0, width)))
      throw DataError("the SentencePiece model cannot encode {}", quote(rest));
    rest.remove_prefix(width);
  }
  if (cuts == 0 || tokens.empty()) return tokens;
  // Text without tokens, such as a space, adds its bytes to the last token.
  std::int64_t missing = std::ssize(line);
  for (const SubwordToken& token : tokens) missing -= token.bytes;
  tokens.back().bytes += missing;
  return tokens;
}

std::vector<SubwordSegmentation> SentencePieceModel::segmentations(std::string_view line,
                                                                   int most) const {
  std::vector<SubwordSegmentation> result;
  sentencepiece::ImmutableNBestSentencePieceText best;
  if (!line.empty() && loaded_->processor.NBestEncode(line, most, best.mutable_proto()).ok()) {
    for (const auto& segmentation : best.nbests()) {
      SubwordSegmentation& found = result.emplace_back();
      found.log_probability = static_cast<double>(segmentation.score());
      for (const auto& piece : segmentation.pieces()) found.ids.push_back(piece.id());
    }
  }
  if (result.empty()) {
    SubwordSegmentation& usual = result.emplace_back();
    for (const SubwordToken& token : encode_line(line)) usual.ids.push_back(token.id);
  }
  return result;
}

std::string SentencePieceModel::decode_line(std::span<const std::int64_t> ids) const {
  std::string text;
  const auto status = loaded_->processor.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  // A corrupt model cannot decode all of its pieces.
  if (!status.ok())
    throw DataError("the SentencePiece model cannot decode: {}", truncated(status.ToString()));
  for (std::size_t at = 0; (at = text.find(space_letter, at)) != std::string::npos; ++at)
    text.replace(at, space_letter.size(), " ");
  return text;
}

SentencePieceModel read_subword_model(const ConfigPath& path) {
  const InputFile file(path);
  if (file.size() > max_model_bytes)
    throw DataError("{}: expected a SentencePiece model (a .model file), found {} bytes",
                    path.describe(),
                    file.size());
  std::string bytes(static_cast<std::size_t>(file.size()), '\0');
  file.copy(0, bytes);
  return SentencePieceModel(std::move(bytes), path.describe());
}

void write_subword_model(const SentencePieceModel& model, const std::string& path) {
  AtomicFile file(path);
  file.write(model.bytes());
  file.finish();
}

}  // namespace longspan
