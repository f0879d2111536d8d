#include "framework/data/tokenization/tokenizer.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/json_bounds.h"
#include "framework/core/quote.h"
#include "framework/data/corpus/lines.h"
#include "framework/data/token_id_file.h"
#include "framework/data/tokenization/character_scan.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
namespace {

constexpr std::string_view format_name = "longspan-tokenizer";
constexpr int format_version = 1;
constexpr std::string_view digits = "0123456789abcdef";

std::string to_hexadecimal(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    text.push_back(digits[static_cast<unsigned char>(byte) >> 4]);
    text.push_back(digits[static_cast<unsigned char>(byte) & 15]);
  }
  return text;
}

std::string from_hexadecimal(std::string_view text, std::string_view place) {
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const std::size_t high = digits.find(text[i]);
    const std::size_t low = digits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) break;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  if (2 * bytes.size() != text.size())
    throw DataError("{}: expected hexadecimal digits in its model", place);
  return bytes;
}

constexpr std::size_t max_before = 64;          // tokens
constexpr std::size_t max_character_bytes = 4;  // each may be a token
constexpr std::string_view not_a_character = "\xEF\xBF\xBD";

}  // namespace

struct Tokenizer::Vocabulary {
  bool with_unknown = false;
  std::vector<char32_t> code_points;  // by id, from first_id()
  std::vector<std::int32_t> ids;      // by code point, -1 if there is none

  std::int64_t first_id() const { return with_unknown ? 1 : 0; }
};

std::string_view name_of(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::bytes:
      return "byte";
    case TokenizerKind::characters:
      return "char";
    case TokenizerKind::sentencepiece:
      return "sentencepiece";
    case TokenizerKind::tokenizer_json:
      return "huggingface";
    case TokenizerKind::ids:
      return "none";
  }
  throw Failure("unnamed tokenizer type");
}

namespace {

// Name in checkpoints.
std::string_view stored_name_of(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::bytes:
      return "bytes";
    case TokenizerKind::characters:
      return "characters";
    case TokenizerKind::sentencepiece:
      return "sentencepiece";
    case TokenizerKind::tokenizer_json:
      return "tokenizer_json";
    case TokenizerKind::ids:
      return "ids";
  }
  throw Failure("unnamed tokenizer type");
}

}  // namespace

Tokenizer Tokenizer::characters(std::span<const char32_t> code_points, bool with_unknown) {
  auto vocabulary = std::make_shared<Vocabulary>();
  vocabulary->with_unknown = with_unknown;
  auto& sorted = vocabulary->code_points;
  sorted.assign(code_points.begin(), code_points.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (sorted.empty()) throw DataError("a character tokenizer requires at least one character");
  require(sorted.back() <= max_code_point,
          "{:x} is not a code point",
          static_cast<std::uint32_t>(sorted.back()));
  vocabulary->ids.assign(static_cast<std::size_t>(sorted.back()) + 1, -1);
  for (std::size_t i = 0; i < sorted.size(); ++i)
    vocabulary->ids[sorted[i]] =
        static_cast<std::int32_t>(static_cast<std::int64_t>(i) + vocabulary->first_id());
  Tokenizer tokenizer;
  tokenizer.vocabulary_ = std::move(vocabulary);
  return tokenizer;
}

Tokenizer Tokenizer::characters_of(const InputFile& file,
                                   bool with_unknown,
                                   const ProgressCallback& listener) {
  std::vector<bool> seen(static_cast<std::size_t>(max_code_point) + 1);
  for_each_character(
      file, listener, [&seen](char32_t code_point, std::int64_t) { seen[code_point] = true; });
  std::vector<char32_t> found;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) found.push_back(static_cast<char32_t>(i));
  }
  return characters(found, with_unknown);
}

Tokenizer Tokenizer::subwords(const SentencePieceModel& model) {
  Tokenizer tokenizer;
  tokenizer.subwords_ = std::make_shared<const SentencePieceModel>(model);
  return tokenizer;
}

Tokenizer Tokenizer::from_huggingface(const JsonTokenizer& model) {
  Tokenizer tokenizer;
  tokenizer.json_ = std::make_shared<const JsonTokenizer>(model);
  return tokenizer;
}

Tokenizer Tokenizer::ids(std::int64_t vocabulary) {
  require(vocabulary >= 1, "expected a vocabulary of at least 1 id, found {}", vocabulary);
  Tokenizer tokenizer;
  tokenizer.ids_ = vocabulary;
  return tokenizer;
}

TokenizerKind Tokenizer::kind() const {
  if (json_) return TokenizerKind::tokenizer_json;
  if (ids_ > 0) return TokenizerKind::ids;
  if (subwords_) return TokenizerKind::sentencepiece;
  return vocabulary_ ? TokenizerKind::characters : TokenizerKind::bytes;
}

std::int64_t Tokenizer::vocabulary() const {
  if (json_) return json_->vocabulary();
  if (ids_ > 0) return ids_;
  if (subwords_) return subwords_->vocabulary();
  if (!vocabulary_) return 256;
  return vocabulary_->first_id() + static_cast<std::int64_t>(vocabulary_->code_points.size());
}

double Tokenizer::unknown_nats() const {
  if (!has_unknown()) return 0;
  constexpr std::size_t surrogates = 0xE000 - 0xD800;
  constexpr std::size_t all = std::size_t{max_code_point} + 1 - surrogates;
  return std::log(static_cast<double>(all - vocabulary_->code_points.size()));
}

bool Tokenizer::has_unknown() const { return vocabulary_ && vocabulary_->with_unknown; }

std::int64_t Tokenizer::id_of(char32_t code_point) const {
  require(vocabulary_ != nullptr, "the tokenizer has no code points");
  const auto& ids = vocabulary_->ids;
  const std::int64_t id = code_point < ids.size() ? ids[code_point] : -1;
  return id < 0 && vocabulary_->with_unknown ? 0 : id;
}

std::int64_t Tokenizer::id_at(char32_t code_point,
                              std::string_view place,
                              std::int64_t offset) const {
  const std::int64_t id = id_of(code_point);
  if (id < 0)
    throw DataError(
        "{}: byte {}: character {} is not in the vocabulary of {} characters; set "
        "data.tokenizer.allow_unk to true to map such characters to <unknown>",
        place,
        offset,
        describe_code_point(code_point),
        vocabulary());
  return id;
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, std::string_view place) const {
  if (json_) return json_->ids(text, place);
  if (ids_ > 0) return parse_token_ids(text, ids_, place);
  if (subwords_) return encode_subwords(text, place);
  std::vector<std::int64_t> ids;
  ids.reserve(text.size());
  if (!vocabulary_) {
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }
  for_each_character(text, 0, true, place, [&](char32_t code_point, std::int64_t offset) {
    ids.push_back(id_at(code_point, place, offset));
  });
  return ids;
}

std::vector<std::int64_t> Tokenizer::encode_subwords(std::string_view text,
                                                     std::string_view place) const {
  for_each_character(text, 0, true, place, [](char32_t, std::int64_t) {});
  std::vector<std::int64_t> ids;
  if (!subwords_->encodes_lines()) {
    subwords_->encode(text, false, [&ids](const SubwordToken& token) { ids.push_back(token.id); });
    return ids;
  }
  std::size_t used = 0;
  for (const LineChunk& line : split_lines(text, true, used)) {
    for (const SubwordToken& token : subwords_->encode_line(line.text)) ids.push_back(token.id);
    if (line.ends_line) ids.push_back(subwords_->line_end());
  }
  return ids;
}

std::string Tokenizer::decode_subwords(std::span<const std::int64_t> ids) const {
  if (!subwords_->encodes_lines()) return subwords_->decode_line(ids);
  std::string text;
  for (auto begin = ids.begin();;) {
    const auto end = std::find(begin, ids.end(), subwords_->line_end());
    text += subwords_->decode_line({begin, end});
    if (end == ids.end()) return text;
    text.push_back('\n');
    begin = end + 1;
  }
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids) const {
  for (const std::int64_t id : ids)
    if (id < 0 || id >= vocabulary())
      throw DataError("token {} is out of range for the vocabulary of {} ids", id, vocabulary());
  if (json_) return json_->decode(ids);
  if (ids_ > 0) return format_token_ids(ids);
  if (subwords_) return decode_subwords(ids);
  std::string text;
  for (const std::int64_t id : ids) {
    if (!vocabulary_) {
      text.push_back(static_cast<char>(id));
    } else if (id < vocabulary_->first_id()) {
      append_utf8(text, replacement_character);
    } else {
      append_utf8(text,
                  vocabulary_->code_points[static_cast<std::size_t>(id - vocabulary_->first_id())]);
    }
  }
  return text;
}

std::string Tokenizer::to_json() const {
  nlohmann::ordered_json json;
  json["format"] = format_name;
  json["version"] = format_version;
  json["kind"] = stored_name_of(kind());
  if (vocabulary_) {
    json["unknown"] = vocabulary_->with_unknown;
    auto pieces = nlohmann::ordered_json::array();
    for (const char32_t code_point : vocabulary_->code_points) {
      std::string piece;
      append_utf8(piece, code_point);
      pieces.push_back(std::move(piece));
    }
    json["characters"] = std::move(pieces);
  }
  if (json_) json["tokenizer"] = json_->json();
  if (ids_ > 0) json["vocabulary"] = ids_;
  if (subwords_) json["model"] = to_hexadecimal(subwords_->bytes());
  return json.dump() + "\n";
}

Tokenizer Tokenizer::from_json(std::string_view text, std::string_view place) {
  check_json_limits(text, std::string(place));
  // Shortens any value for messages.
  const auto found = [](const nlohmann::json& value) { return truncated(value.dump()); };
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
    if (json.at("format") != format_name) throw DataError("{}: not a Longspan tokenizer", place);
    if (json.at("version") != format_version)
      throw DataError("{}: expected tokenizer format {}, found {}",
                      place,
                      format_version,
                      found(json.at("version")));
    const auto kind = json.at("kind").get<std::string>();
    if (kind == stored_name_of(TokenizerKind::bytes)) return {};
    if (kind == stored_name_of(TokenizerKind::ids)) {
      const auto vocabulary = json.at("vocabulary").get<std::int64_t>();
      if (vocabulary < 1)
        throw DataError("{}: expected a vocabulary of at least 1 id, found {}",
                        place,
                        found(json.at("vocabulary")));
      return ids(vocabulary);
    }
    if (kind == stored_name_of(TokenizerKind::sentencepiece))
      return subwords(SentencePieceModel(
          from_hexadecimal(json.at("model").get_ref<const std::string&>(), place),
          std::string(place)));
    if (kind == stored_name_of(TokenizerKind::tokenizer_json))
      return from_huggingface(
          JsonTokenizer(json.at("tokenizer").get<std::string>(), std::string(place)));
    if (kind != stored_name_of(TokenizerKind::characters))
      throw DataError(
          "{}: unknown stored tokenizer type {} (choices: bytes, characters, sentencepiece, "
          "tokenizer_json, ids)",
          place,
          quote(kind));
    std::vector<char32_t> code_points;
    for (const auto& piece : json.at("characters")) {
      const auto bytes = piece.get<std::string>();
      const Utf8Character character = bytes.empty() ? Utf8Character{} : decode_utf8(bytes);
      if (character.status != Utf8Status::valid ||
          static_cast<std::size_t>(character.width) != bytes.size())
        throw DataError("{}: expected one character, found {}", place, found(piece));
      if (!code_points.empty() && code_points.back() >= character.code_point)
        throw DataError("{}: {} is out of order", place, found(piece));
      code_points.push_back(character.code_point);
    }
    return characters(code_points, json.at("unknown").get<bool>());
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: not a Longspan tokenizer: {}", place, truncated(error.what(), 200));
  }
}

std::uint64_t Tokenizer::fingerprint() const {
  const std::string text = to_json();
  return XXH3_64bits(text.data(), text.size());
}

bool operator==(const Tokenizer& a, const Tokenizer& b) {
  if (a.json_ || b.json_) return a.json_ && b.json_ && *a.json_ == *b.json_;
  if (a.ids_ != b.ids_) return false;
  if (a.subwords_ || b.subwords_) return a.subwords_ && b.subwords_ && *a.subwords_ == *b.subwords_;
  if (!a.vocabulary_ || !b.vocabulary_) return a.vocabulary_ == b.vocabulary_;
  return a.vocabulary_->with_unknown == b.vocabulary_->with_unknown &&
         a.vocabulary_->code_points == b.vocabulary_->code_points;
}

TextStreamer::TextStreamer(const Tokenizer& tokenizer, std::span<const std::int64_t> before)
    : tokenizer_(tokenizer) {
  const auto last = before.last(std::min(before.size(), max_before));
  tokens_.assign(last.begin(), last.end());
  given_ = tokens_.size();
}

std::string TextStreamer::emitted_text() const {
  return tokenizer_.decode(std::span(tokens_).first(given_));
}

std::string TextStreamer::push(std::int64_t token) {
  if (!tokenizer_.needs_token_file()) return tokenizer_.decode({&token, 1});
  tokens_.push_back(token);
  const std::string before = emitted_text();
  const std::string now = tokenizer_.decode(tokens_);
  const bool may_continue =
      now.ends_with(not_a_character) && tokens_.size() - given_ < max_character_bytes;
  if (may_continue || now.size() <= before.size()) return "";
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(given_));
  given_ = tokens_.size();
  return now.substr(before.size());
}

std::string TextStreamer::finish() {
  if (tokens_.size() == given_) return "";
  const std::string now = tokenizer_.decode(tokens_);
  const std::string before = emitted_text();
  given_ = tokens_.size();
  return now.size() > before.size() ? now.substr(before.size()) : "";
}

}  // namespace longspan
