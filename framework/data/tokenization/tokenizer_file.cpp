#include "framework/data/tokenization/tokenizer_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/json_bounds.h"
#include "framework/core/utf8.h"
#include "framework/data/atomic_file.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/tokenization/sentencepiece_model.h"
#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"
#include "framework/tokenizers/slow_tokenizer.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t max_bytes = std::int64_t{64} << 20;
constexpr const char* merges_name = "merges.txt";

std::string content_of(const ConfigPath& path) {
  const auto file = open_plain_text(path);
  if (file->size() > max_bytes)
    throw DataError("{}: expected a tokenizer of at most {} bytes, found {}",
                    path.describe(),
                    max_bytes,
                    file->size());
  return file->text(max_bytes);
}

// Checkpoints store JSON within a JSON string, where quotes and line ends take more bytes.
JsonTokenizer checked(JsonTokenizer tokenizer, const std::string& place) {
  std::size_t bytes = 0;
  for (const char letter : tokenizer.json())
    bytes += letter == '"' || letter == '\\' ? 4 : (letter == '\n' ? 3 : 1);
  if (bytes >= JsonLimits::max_text)
    throw DataError("{}: expected at most {} bytes in a checkpoint, found {}",
                    place,
                    JsonLimits::max_text,
                    bytes);
  return tokenizer;
}

struct VocabularyName {
  const char* name;
  SlowVocabulary kind;
};
constexpr VocabularyName vocabulary_names[] = {{"vocab.json", SlowVocabulary::json},
                                               {"vocab.txt", SlowVocabulary::lines},
                                               {"tokenizer.model", SlowVocabulary::sentencepiece},
                                               {"spiece.model", SlowVocabulary::sentencepiece}};

// Vocabulary files in a directory without a tokenizer.json.
std::optional<VocabularyName> slow_vocabulary_in(const fs::path& folder) {
  for (const VocabularyName& each : vocabulary_names) {
    const bool is_pair = each.kind == SlowVocabulary::json;
    if (path_exists(folder / each.name) && (!is_pair || path_exists(folder / merges_name)))
      return each;
  }
  return std::nullopt;
}

JsonTokenizer read_slow_tokenizer(const fs::path& folder, const VocabularyName& vocabulary) {
  const auto named = [&folder](const char* name) -> NamedText {
    const std::string path = (folder / name).string();
    if (!path_exists(path)) return {};
    return {path, content_of(path)};
  };
  const SlowTokenizerFiles files = {
      .kind = vocabulary.kind,
      .vocabulary = named(vocabulary.name),
      .merges = vocabulary.kind == SlowVocabulary::json ? named(merges_name) : NamedText(),
      .tokenizer_config = named("tokenizer_config.json"),
      .special_tokens_map = named("special_tokens_map.json"),
      .added_tokens = named("added_tokens.json"),
      .config = named("config.json")};
  return {json_of_slow_tokenizer(files), files.vocabulary.place};
}

using Json = nlohmann::ordered_json;

// Below the score of any piece that text can match, so that pieces such as <0x0A> are never chosen.
constexpr double never_chosen = -1e6;

Json file_of(Json normalizer, Json pre_tokenizer, Json decoder, Json model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

Json byte_pairs(Json vocabulary, Json merges, Json unknown, bool by_bytes) {
  const bool has_unknown = !unknown.is_null();
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", std::move(unknown)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", has_unknown},
          {"byte_fallback", by_bytes},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

Json json_of_bytes() {
  const Json letters = {{"type", "ByteLevel"},
                        {"add_prefix_space", false},
                        {"trim_offsets", true},
                        {"use_regex", false}};
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocabulary[to_byte_letters(std::string(1, static_cast<char>(byte)))] = byte;
  return file_of(
      nullptr, letters, letters, byte_pairs(std::move(vocabulary), Json::array(), nullptr, false));
}

Json json_of_characters(const Tokenizer& tokenizer) {
  Json vocabulary = Json::object();
  for (std::int64_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const bool is_unknown = tokenizer.has_unknown() && id == Tokenizer::unknown_id;
    vocabulary[is_unknown ? std::string(Tokenizer::unknown_name) : tokenizer.decode({&id, 1})] = id;
  }
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", "[\\s\\S]"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return file_of(nullptr,
                 split,
                 {{"type", "Fuse"}},
                 {{"type", "WordLevel"},
                  {"vocab", std::move(vocabulary)},
                  {"unk_token", Tokenizer::unknown_name}});
}

// The fields of sentencepiece_model.proto that are read.
struct Piece {
  // ModelProto.SentencePiece.Type.
  enum Type : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };
  std::string text;
  double score = 0;
  std::int32_t type = normal;
};
struct SentencePieceProto {
  enum Kind : std::uint8_t { unigram = 1, bpe, words, characters };
  std::vector<Piece> pieces;
  std::int32_t kind = unigram;
  bool spaces_after_words = false;
  std::string charsmap;
  bool adds_prefix = true;
  bool trims_spaces = true;
  bool writes_spaces = true;
};

Piece read_piece(protozero::pbf_reader message) {
  Piece piece;
  while (message.next()) {
    if (message.tag() == 1)
      piece.text = message.get_string();
    else if (message.tag() == 2)
      piece.score = static_cast<double>(message.get_float());
    else if (message.tag() == 3)
      piece.type = message.get_enum();
    else
      message.skip();
  }
  return piece;
}

void read_trainer(protozero::pbf_reader message, SentencePieceProto& model) {
  while (message.next()) {
    if (message.tag() == 3)
      model.kind = message.get_enum();
    else if (message.tag() == 24)
      model.spaces_after_words = message.get_bool();
    else
      message.skip();
  }
}

void read_normalizer(protozero::pbf_reader message, SentencePieceProto& model) {
  while (message.next()) {
    if (message.tag() == 2)
      model.charsmap = message.get_string();
    else if (message.tag() == 3)
      model.adds_prefix = message.get_bool();
    else if (message.tag() == 4)
      model.trims_spaces = message.get_bool();
    else if (message.tag() == 5)
      model.writes_spaces = message.get_bool();
    else
      message.skip();
  }
}

SentencePieceProto read_model(const std::string& bytes) {
  SentencePieceProto model;
  protozero::pbf_reader message(bytes);
  while (message.next()) {
    if (message.tag() == 1)
      model.pieces.push_back(read_piece(message.get_message()));
    else if (message.tag() == 2)
      read_trainer(message.get_message(), model);
    else if (message.tag() == 3)
      read_normalizer(message.get_message(), model);
    else
      message.skip();
  }
  return model;
}

std::string in_base64(std::string_view bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= count ? letters[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

Json replaced(Json pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}};
}

Json normalizer_of(const SentencePieceProto& model) {
  Json steps = Json::array();
  if (!model.charsmap.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", in_base64(model.charsmap)}});
  if (model.trims_spaces) {
    // A Strip step would also remove other white space.
    steps.push_back(replaced({{"Regex", R"((?<![\s\S]) +| +(?![\s\S]))"}}, ""));
    steps.push_back(replaced({{"Regex", " {2,}"}}, " "));
  }
  const std::string_view space = model.writes_spaces ? space_letter : " ";
  if (model.adds_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", space}});
  if (model.writes_spaces) steps.push_back(replaced({{"String", " "}}, space_letter));
  if (steps.empty()) return nullptr;
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

// Text such as "<0x0A>" must not match a byte piece. Hugging Face matches it in a unigram model for
// any score, because an unknown character scores lower.
Json pre_tokenizer_of(const SentencePieceProto& model) {
  if (model.kind != SentencePieceProto::unigram) return nullptr;
  return {{"type", "Split"},
          {"pattern", {{"Regex", "<(?=0x[0-9A-F]{2}>)"}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json decoder_of(const SentencePieceProto& model) {
  Json steps = {
      replaced({{"String", space_letter}}, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (model.adds_prefix)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

// Lists each split of a piece into two others. SentencePiece merges the piece of the highest score
// first; Hugging Face merges in the order of this list.
Json merges_of(const SentencePieceProto& model) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    if (model.pieces[id].type == Piece::normal) ids.emplace(model.pieces[id].text, id);
  std::vector<std::tuple<double, std::size_t, std::size_t>> found;  // score, both halves
  for (const Piece& piece : model.pieces) {
    if (piece.type != Piece::normal) continue;
    const std::string_view text = piece.text;
    for (std::size_t at = 1; at < text.size(); ++at) {
      const auto left = ids.find(text.substr(0, at)), right = ids.find(text.substr(at));
      if (left != ids.end() && right != ids.end())
        found.emplace_back(piece.score, left->second, right->second);
    }
  }
  std::ranges::stable_sort(found, std::greater(), [](const auto& each) { return get<0>(each); });
  Json merges = Json::array();
  for (const auto& [score, left, right] : found)
    merges.push_back({model.pieces[left].text, model.pieces[right].text});
  return merges;
}

Json model_of(const SentencePieceProto& model) {
  const auto unknown = std::ranges::find(model.pieces, Piece::unknown, &Piece::type);
  const bool by_bytes = std::ranges::count(model.pieces, Piece::byte, &Piece::type) == 256;
  if (model.kind == SentencePieceProto::unigram) {
    Json vocabulary = Json::array();
    for (const Piece& piece : model.pieces) {
      const bool is_text = piece.type == Piece::normal || piece.type == Piece::user_defined;
      vocabulary.push_back({piece.text, is_text ? piece.score : never_chosen});
    }
    return {{"type", "Unigram"},
            {"unk_id", unknown - model.pieces.begin()},
            {"vocab", std::move(vocabulary)},
            {"byte_fallback", by_bytes}};
  }
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) vocabulary[model.pieces[id].text] = id;
  return byte_pairs(std::move(vocabulary),
                    model.kind == SentencePieceProto::bpe ? merges_of(model) : Json::array(),
                    unknown->text,
                    by_bytes);
}

std::optional<Json> json_of_subwords(const SentencePieceModel& subwords) {
  const SentencePieceProto model = read_model(subwords.bytes());
  // A model that encodes entire texts has no separate line-end token.
  const std::string end = subwords.encodes_lines() ? subwords.piece(subwords.line_end()) : "\n";
  const bool has_unknown = std::ranges::count(model.pieces, Piece::unknown, &Piece::type) > 0;
  if (model.kind == SentencePieceProto::words || model.spaces_after_words || !has_unknown ||
      (end != "\n" && end != "<0x0A>"))
    return std::nullopt;
  Json file =
      file_of(normalizer_of(model), pre_tokenizer_of(model), decoder_of(model), model_of(model));
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const bool is_special = piece.type == Piece::control || piece.type == Piece::unknown;
    if (is_special || piece.type == Piece::user_defined)
      file["added_tokens"].push_back({{"id", id},
                                      {"content", piece.text},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", is_special}});
  }
  return file;
}

}  // namespace

std::optional<std::string> tokenizer_file_in(const std::string& folder) {
  const fs::path inside(folder);
  if (path_exists(inside / "tokenizer.json")) return (inside / "tokenizer.json").string();
  const auto slow = slow_vocabulary_in(inside);
  if (slow) return (inside / slow->name).string();
  return std::nullopt;
}

std::string other_tokenizer_files(const std::string& folder) {
  const std::string text = ", vocab.txt, tokenizer.model or spiece.model";
  for (const char* const name : {"vocab.json",
                                 "sentencepiece.bpe.model",
                                 "sentencepiece.model",
                                 "source.spm",
                                 "tekken.json",
                                 "tiktoken.model",
                                 "bpe.codes",
                                 "vocab.bpe"})
    if (path_exists(fs::path(folder) / name))
      return text + fmt::format(", found {}; save the tokenizer as tokenizer.json", name);
  return text;
}

void write_json_tokenizer(const JsonTokenizer& tokenizer, const std::string& path) {
  AtomicFile file(path);
  file.write(tokenizer.json());
  file.finish();
}

JsonTokenizer read_json_tokenizer(const ConfigPath& path) {
  std::error_code unused;
  if (!fs::is_directory(path.text(), unused))
    return checked(JsonTokenizer(content_of(path), path.describe()), path.describe());
  const std::optional<std::string> file = tokenizer_file_in(path.text());
  if (!file)
    throw DataError("{}: expected tokenizer.json, vocab.json with merges.txt{}",
                    path.describe(),
                    other_tokenizer_files(path.text()));
  const auto slow = slow_vocabulary_in(path.text());
  if (file->ends_with("tokenizer.json") || !slow)
    return checked(JsonTokenizer(content_of(*file), *file), *file);
  return checked(read_slow_tokenizer(path.text(), *slow), *file);
}

std::optional<std::string> package_json(const Tokenizer& tokenizer) {
  if (const JsonTokenizer* const model = tokenizer.json_tokenizer()) return model->json();
  std::optional<Json> file;
  if (const SentencePieceModel* const model = tokenizer.subword_model())
    file = json_of_subwords(*model);
  else if (tokenizer.kind() == TokenizerKind::bytes)
    file = json_of_bytes();
  else if (tokenizer.kind() == TokenizerKind::characters)
    file = json_of_characters(tokenizer);
  if (!file) return std::nullopt;
  return file->dump() + "\n";
}

}  // namespace longspan
