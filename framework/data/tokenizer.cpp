#include "framework/data/tokenizer.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/json_bounds.h"
#include "framework/core/option_text.h"
#include "framework/data/character_scan.h"

namespace longspan {

namespace {

constexpr std::string_view format_name = "longspan-tokenizer";
constexpr int format_version = 1;

}  // namespace

struct Tokenizer::Vocabulary {
  bool with_unknown = false;
  std::vector<char32_t> code_points;  // of ids first_id(), first_id() + 1, ...
  std::vector<std::int32_t> ids;      // of code points, -1 where there is none

  std::int64_t first_id() const { return with_unknown ? 1 : 0; }
};

std::string_view name_of(TokenizerKind kind) {
  return kind == TokenizerKind::bytes ? "bytes" : "characters";
}

Tokenizer Tokenizer::characters(std::span<const char32_t> code_points, bool with_unknown) {
  auto vocabulary = std::make_shared<Vocabulary>();
  vocabulary->with_unknown = with_unknown;
  auto& sorted = vocabulary->code_points;
  sorted.assign(code_points.begin(), code_points.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (sorted.empty()) throw DataError("a character tokenizer needs at least one character");
  require(sorted.back() <= largest_code_point,
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

Tokenizer Tokenizer::characters_of(const MappedFile& file,
                                   bool with_unknown,
                                   const ScanListener& listener) {
  std::vector<bool> seen(static_cast<std::size_t>(largest_code_point) + 1);
  for_each_character(
      file, listener, [&seen](char32_t code_point, std::int64_t) { seen[code_point] = true; });
  std::vector<char32_t> found;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) found.push_back(static_cast<char32_t>(i));
  }
  return characters(found, with_unknown);
}

TokenizerKind Tokenizer::kind() const {
  return vocabulary_ ? TokenizerKind::characters : TokenizerKind::bytes;
}

std::int64_t Tokenizer::vocabulary() const {
  if (!vocabulary_) return 256;
  return vocabulary_->first_id() + static_cast<std::int64_t>(vocabulary_->code_points.size());
}

double Tokenizer::unknown_nats() const {
  if (!has_unknown()) return 0;
  constexpr std::size_t surrogates = 0xE000 - 0xD800;
  constexpr std::size_t all = std::size_t{largest_code_point} + 1 - surrogates;
  return std::log(static_cast<double>(all - vocabulary_->code_points.size()));
}

bool Tokenizer::has_unknown() const { return vocabulary_ && vocabulary_->with_unknown; }

std::int64_t Tokenizer::id_of(char32_t code_point) const {
  require(vocabulary_ != nullptr, "the byte tokenizer has no code points");
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
        "{}: byte {}: character {} is not in the vocabulary of {} characters; data.unknown: true "
        "gives such characters one id",
        place,
        offset,
        describe_code_point(code_point),
        vocabulary());
  return id;
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, std::string_view place) const {
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

std::string Tokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= vocabulary())
      throw DataError("token {} is outside of the vocabulary of {}", id, vocabulary());
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
  json["kind"] = name_of(kind());
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
  return json.dump() + "\n";
}

Tokenizer Tokenizer::from_json(std::string_view text, std::string_view place) {
  require_json_bounds(text, std::string(place));
  // Short, whatever is there.
  const auto found = [](const nlohmann::json& value) { return shortened(value.dump()); };
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
    if (json.at("format") != format_name)
      throw DataError("{}: is not a tokenizer of Longspan", place);
    if (json.at("version") != format_version)
      throw DataError("{}: has tokenizer format {}; this program reads {}",
                      place,
                      found(json.at("version")),
                      format_version);
    const auto kind = json.at("kind").get<std::string>();
    if (kind == name_of(TokenizerKind::bytes)) return {};
    if (kind != name_of(TokenizerKind::characters))
      throw DataError(
          "{}: tokenizer {} is not known; bytes and characters are", place, in_quotes(kind));
    std::vector<char32_t> code_points;
    for (const auto& piece : json.at("characters")) {
      const auto bytes = piece.get<std::string>();
      const Utf8Character character = bytes.empty() ? Utf8Character{} : decode_utf8(bytes);
      if (character.status != Utf8Status::valid ||
          static_cast<std::size_t>(character.width) != bytes.size())
        throw DataError("{}: {} is not one character", place, found(piece));
      if (!code_points.empty() && code_points.back() >= character.code_point)
        throw DataError("{}: {} is out of order", place, found(piece));
      code_points.push_back(character.code_point);
    }
    return characters(code_points, json.at("unknown").get<bool>());
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: is not a tokenizer of Longspan: {}", place, shortened(error.what(), 200));
  }
}

std::uint64_t Tokenizer::fingerprint() const {
  const std::string text = to_json();
  return XXH3_64bits(text.data(), text.size());
}

bool operator==(const Tokenizer& a, const Tokenizer& b) {
  if (!a.vocabulary_ || !b.vocabulary_) return a.vocabulary_ == b.vocabulary_;
  return a.vocabulary_->with_unknown == b.vocabulary_->with_unknown &&
         a.vocabulary_->code_points == b.vocabulary_->code_points;
}

}  // namespace longspan
