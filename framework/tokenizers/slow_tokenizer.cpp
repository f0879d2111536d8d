#include "framework/tokenizers/slow_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "framework/core/error.h"
#include "framework/core/json_bounds.h"
#include "framework/core/quote.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/tokenizers/word_model.h"

namespace longspan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view word_end = "</w>";
constexpr std::string_view gpt2_space = "\u0120";  // in GPT-2's byte-level characters
constexpr const char* piece_space = "\u2581";      // in SentencePiece
// The patterns of CLIP (Radford et al. 2021) and Qwen 2 (Yang et al. 2024).
constexpr const char* clip_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
constexpr const char* qwen2_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class SlowKind { gpt2, roberta, clip, qwen2, bert, llama, t5 };

struct SlowName {
  const char* name;
  SlowKind kind;
};
constexpr SlowName slow_classes[] = {{"GPT2Tokenizer", SlowKind::gpt2},
                                     {"RobertaTokenizer", SlowKind::roberta},
                                     {"BartTokenizer", SlowKind::roberta},
                                     {"LongformerTokenizer", SlowKind::roberta},
                                     {"LEDTokenizer", SlowKind::roberta},
                                     {"CLIPTokenizer", SlowKind::clip},
                                     {"Qwen2Tokenizer", SlowKind::qwen2},
                                     {"BertTokenizer", SlowKind::bert},
                                     {"DistilBertTokenizer", SlowKind::bert},
                                     {"ElectraTokenizer", SlowKind::bert},
                                     {"LlamaTokenizer", SlowKind::llama},
                                     {"T5Tokenizer", SlowKind::t5}};
constexpr SlowName model_types[] = {{"gpt2", SlowKind::gpt2},
                                    {"roberta", SlowKind::roberta},
                                    {"bart", SlowKind::roberta},
                                    {"clip", SlowKind::clip},
                                    {"qwen2", SlowKind::qwen2},
                                    {"qwen3", SlowKind::qwen2},
                                    {"bert", SlowKind::bert},
                                    {"llama", SlowKind::llama},
                                    {"mistral", SlowKind::llama},
                                    {"t5", SlowKind::t5}};

SlowVocabulary vocabulary_of(SlowKind kind) {
  if (kind == SlowKind::bert) return SlowVocabulary::lines;
  if (kind == SlowKind::llama || kind == SlowKind::t5) return SlowVocabulary::sentencepiece;
  return SlowVocabulary::json;
}

// The roles of special tokens, in the package's order.
constexpr const char* roles[] = {"bos", "eos", "unk", "sep", "cls", "pad", "mask"};

std::map<std::string, std::string> usual_special_tokens(SlowKind kind) {
  const std::string end = "<|endoftext|>";
  switch (kind) {
    case SlowKind::gpt2:
      return {{"bos", end}, {"eos", end}, {"unk", end}};
    case SlowKind::roberta:
      return {{"bos", "<s>"},
              {"eos", "</s>"},
              {"unk", "<unk>"},
              {"sep", "</s>"},
              {"cls", "<s>"},
              {"pad", "<pad>"},
              {"mask", "<mask>"}};
    case SlowKind::clip:
      return {{"bos", "<|startoftext|>"}, {"eos", end}, {"unk", end}, {"pad", end}};
    case SlowKind::qwen2:
      return {{"eos", end}, {"unk", end}, {"pad", end}};
    case SlowKind::bert:
      return {{"unk", "[UNK]"},
              {"sep", "[SEP]"},
              {"cls", "[CLS]"},
              {"pad", "[PAD]"},
              {"mask", "[MASK]"}};
    case SlowKind::llama:
      return {{"bos", "<s>"}, {"eos", "</s>"}, {"unk", "<unk>"}};
    case SlowKind::t5:
      return {{"eos", "</s>"}, {"unk", "<unk>"}, {"pad", "<pad>"}};
  }
  throw Failure("slow tokenizer type without special tokens");
}

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t j = i; j < i + 3; ++j)
      bits = bits << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += j <= bytes.size() - i ? letters[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

nlohmann::json parsed(const NamedText& file) {
  if (!file.is_present()) return nlohmann::json::object();
  check_json_limits(file.text, file.place, false);
  try {
    nlohmann::json found = nlohmann::json::parse(file.text);
    if (!found.is_object()) throw DataError("{}: expected a JSON object", file.place);
    return found;
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: invalid JSON: {}", file.place, truncated(error.what(), 200));
  }
}

// Returns an entry of "added_tokens" of a tokenizer.json, without its id. `json`: the token's text,
// or the package's object form.
Json added_token(const JsonCursor& json, bool is_special) {
  const bool is_object = !json.is_text();
  const auto flag = [&](const char* key, bool otherwise) {
    return is_object ? json[key].flag(otherwise) : otherwise;
  };
  return {{"content", is_object ? json["content"].text() : json.text()},
          {"single_word", flag("single_word", false)},
          {"lstrip", flag("lstrip", false)},
          {"rstrip", flag("rstrip", false)},
          {"normalized", flag("normalized", !is_special)},
          {"special", is_special || flag("special", false)}};
}

class SlowTokenizer {
 public:
  explicit SlowTokenizer(const SlowTokenizerFiles& files);
  std::string json();

 private:
  std::optional<SlowKind> configured_kind() const;
  SlowKind found_kind() const;
  void read_vocabulary();
  void read_lines();
  void read_merges();
  void read_pieces(const SentencePieceFile& model);
  void take_byte_pairs(const SentencePieceFile& model);
  void read_special_tokens();
  void add_special(const std::string& role, const JsonCursor& json);
  void add_tokens();
  void check_ids() const;
  void add_byte_level();
  void add_clip();
  void add_bert();
  void add_t5();
  void add_llama();

  bool flag(const char* key, bool otherwise) const { return config_[key].flag(otherwise); }
  std::int64_t find(const std::string& token) const;
  bool has(std::string_view token) const { return find(std::string(token)) >= 0; }
  // Returns the text and id of a special token that a template requires.
  std::pair<std::string, std::int64_t> special(const char* role) const;
  void frame(const std::vector<const char*>& before, const std::vector<const char*>& after);

  const SlowTokenizerFiles& files_;
  nlohmann::json config_json_, map_json_, added_json_, model_json_;
  JsonCursor config_;
  SlowKind kind_ = SlowKind::gpt2;
  bool has_word_ends_ = false;
  std::optional<SentencePieceFile> pieces_;
  Json model_;                                         // the "model" member
  std::unordered_map<std::string, std::int64_t> ids_;  // of the vocabulary and of added tokens
  std::map<std::string, Json> special_;                // by role, and by text where it has none
  std::map<std::int64_t, Json> added_;                 // by id
  Json file_ = {{"version", "1.0"}, {"added_tokens", Json::array()}};
};

SlowTokenizer::SlowTokenizer(const SlowTokenizerFiles& files)
    : files_(files),
      config_json_(parsed(files.tokenizer_config)),
      map_json_(parsed(files.special_tokens_map)),
      added_json_(parsed(files.added_tokens)),
      model_json_(parsed(files.config)),
      config_(config_json_, files.tokenizer_config.place) {}

// Reads the type from "tokenizer_class", else from the model's type if its files are present.
std::optional<SlowKind> SlowTokenizer::configured_kind() const {
  for (const auto& [json, place] : {std::pair(&config_json_, &files_.tokenizer_config.place),
                                    std::pair(&model_json_, &files_.config.place)}) {
    const JsonCursor named = JsonCursor(*json, *place)["tokenizer_class"];
    if (!named.is_present()) continue;
    std::string name = named.text();
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    const auto known = std::ranges::find(slow_classes, name, &SlowName::name);
    if (known == std::end(slow_classes) || vocabulary_of(known->kind) != files_.kind)
      throw DataError(
          "{}: \"tokenizer_class\": {} does not support {}; save the tokenizer as tokenizer.json",
          *place,
          quote(named.text()),
          files_.vocabulary.place);
    return known->kind;
  }
  const auto type = model_json_.find("model_type");
  if (type == model_json_.end() || !type->is_string()) return std::nullopt;
  const auto known = std::ranges::find(model_types, type->get<std::string>(), &SlowName::name);
  if (known == std::end(model_types) || vocabulary_of(known->kind) != files_.kind)
    return std::nullopt;
  return known->kind;
}

// Infers the type from the vocabulary.
SlowKind SlowTokenizer::found_kind() const {
  if (files_.kind == SlowVocabulary::lines) return SlowKind::bert;
  if (files_.kind == SlowVocabulary::sentencepiece)
    return files_.vocabulary.place.ends_with("spiece.model") ? SlowKind::t5 : SlowKind::llama;
  if (has_word_ends_ && has("<|startoftext|>") && has("<|endoftext|>")) return SlowKind::clip;
  return has("<s>") && has("</s>") && has("<mask>") ? SlowKind::roberta : SlowKind::gpt2;
}

std::int64_t SlowTokenizer::find(const std::string& token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

std::pair<std::string, std::int64_t> SlowTokenizer::special(const char* role) const {
  const auto found = special_.find(role);
  if (found == special_.end())
    throw DataError(
        "{}: expected a {}_token for the template, found none", files_.vocabulary.place, role);
  const auto text = found->second["content"].get<std::string>();
  const std::int64_t id = find(text);
  if (id < 0)
    throw DataError("{}: has no token {}, the {}_token of the template",
                    files_.vocabulary.place,
                    quote(text),
                    role);
  return {text, id};
}

void SlowTokenizer::frame(const std::vector<const char*>& before,
                          const std::vector<const char*>& after) {
  Json single = Json::array(), pair = Json::array(), tokens = Json::object();
  const auto add = [&](const char* role, int type, Json& to) {
    const auto [text, id] = special(role);
    to.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
    tokens[text] = {{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
  };
  const auto add_text = [](const char* id, int type, Json& to) {
    to.push_back({{"Sequence", {{"id", id}, {"type_id", type}}}});
  };
  for (const char* role : before) add(role, 0, single);
  add_text("A", 0, single);
  for (const char* role : after) add(role, 0, single);
  pair = single;
  // In BERT the second text of a pair has no prefix.
  if (kind_ != SlowKind::bert)
    for (const char* role : before) add(role, 1, pair);
  add_text("B", 1, pair);
  for (const char* role : after) add(role, 1, pair);
  file_["post_processor"] = {{"type", "TemplateProcessing"},
                             {"single", single},
                             {"pair", pair},
                             {"special_tokens", tokens}};
}

// vocab.txt: an id is a line number; for duplicate tokens the last one counts.
void SlowTokenizer::read_lines() {
  std::string_view rest = files_.vocabulary.text;
  for (std::int64_t id = 0; !rest.empty(); ++id) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ids_[std::string(line)] = id;
  }
  if (ids_.empty()) throw DataError("{}: is empty", files_.vocabulary.place);
  model_ = {{"type", "WordPiece"}};
}

void SlowTokenizer::read_merges() {
  const nlohmann::json vocabulary = parsed(files_.vocabulary);
  const WordVocabulary read = read_word_vocabulary(JsonCursor(vocabulary, files_.vocabulary.place));
  for (std::size_t id = 0; id < read.texts.size(); ++id)
    if (read.ids.find(read.texts[id]) == static_cast<std::int32_t>(id))
      ids_[read.texts[id]] = static_cast<std::int64_t>(id);
  auto pairs = Json::array();
  std::string_view merges = files_.merges.text;
  std::int64_t line_number = 0;
  while (!merges.empty()) {
    const std::size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos)
      throw DataError("{}:{}: expected two pieces with a space between them, found {}",
                      files_.merges.place,
                      line_number,
                      quote(line));
    pairs.push_back({line.substr(0, blank), line.substr(blank + 1)});
    has_word_ends_ = has_word_ends_ || line.ends_with(word_end);
  }
  model_ = {{"type", "BPE"}, {"merges", pairs}};
}

void SlowTokenizer::read_pieces(const SentencePieceFile& model) {
  auto vocabulary = Json::array();
  for (const auto& piece : model.pieces)
    vocabulary.push_back({piece.text, static_cast<double>(piece.score)});
  model_ = {{"type", "Unigram"},
            {"unk_id", model.unknown_id},
            {"vocab", vocabulary},
            {"byte_fallback", model.byte_fallback}};
}

// Derives the merges from pieces, ordered by score.
void SlowTokenizer::take_byte_pairs(const SentencePieceFile& model) {
  struct Merge {
    float score;
    std::int64_t left, right;  // ids
    std::size_t cut;
    std::int64_t whole;
  };
  std::vector<Merge> merges;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& piece = model.pieces[i];
    if (piece.type != SentencePieceFile::PieceType::normal) continue;
    for (std::size_t cut = 1; cut < piece.text.size(); ++cut) {
      const auto normal = [&](const std::string& text) {
        const std::int64_t id = find(text);
        const bool is_normal = id >= 0 && model.pieces[static_cast<std::size_t>(id)].type ==
                                              SentencePieceFile::PieceType::normal;
        return is_normal ? id : -1;
      };
      const std::int64_t left = normal(piece.text.substr(0, cut));
      const std::int64_t right = left < 0 ? -1 : normal(piece.text.substr(cut));
      if (right >= 0)
        merges.push_back({piece.score, left, right, cut, static_cast<std::int64_t>(i)});
    }
  }
  std::ranges::sort(merges, [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, a.whole, a.left, a.right) <
           std::tuple(-b.score, b.whole, b.left, b.right);
  });
  auto pairs = Json::array();
  for (const Merge& merge : merges) {
    const std::string& text = model.pieces[static_cast<std::size_t>(merge.whole)].text;
    pairs.push_back({text.substr(0, merge.cut), text.substr(merge.cut)});
  }
  model_ = {{"type", "BPE"},
            {"unk_token", model.pieces[static_cast<std::size_t>(model.unknown_id)].text},
            {"fuse_unk", true},
            {"byte_fallback", model.byte_fallback},
            {"merges", pairs}};
}

void SlowTokenizer::read_vocabulary() {
  if (files_.kind == SlowVocabulary::lines) return read_lines();
  if (files_.kind == SlowVocabulary::json) return read_merges();
  pieces_ = read_sentencepiece_file(files_.vocabulary.text);
  if (!pieces_)
    throw DataError("{}: expected a SentencePiece model; save the tokenizer as tokenizer.json",
                    files_.vocabulary.place);
  const bool is_bpe = pieces_->model_type == SentencePieceFile::ModelType::bpe;
  if ((!is_bpe && pieces_->model_type != SentencePieceFile::ModelType::unigram) ||
      pieces_->space_as_suffix || !pieces_->escape_whitespaces || pieces_->unknown_id < 0 ||
      pieces_->unknown_id >= std::ssize(pieces_->pieces))
    throw DataError(
        "{}: this SentencePiece model cannot be converted to tokenizer.json; set "
        "data.tokenizer.type to sentencepiece, and data.tokenizer.model to this file",
        files_.vocabulary.place);
  for (std::size_t id = 0; id < pieces_->pieces.size(); ++id)
    ids_.emplace(pieces_->pieces[id].text, static_cast<std::int64_t>(id));
  if (is_bpe)
    take_byte_pairs(*pieces_);
  else
    read_pieces(*pieces_);
}

void SlowTokenizer::add_special(const std::string& role, const JsonCursor& json) {
  Json token = added_token(json, true);
  // Matches the package for a token given as plain text.
  if (role == "mask" && kind_ == SlowKind::roberta && json.is_text()) token["lstrip"] = true;
  const std::string key = role.empty() ? "+" + token["content"].get<std::string>() : role;
  special_[key] = std::move(token);
}

// The class's defaults, overridden by tokenizer_config.json, then by special_tokens_map.json.
void SlowTokenizer::read_special_tokens() {
  for (const auto& [role, text] : usual_special_tokens(kind_)) {
    const nlohmann::json json = text;
    add_special(role, JsonCursor(json, files_.vocabulary.place));
  }
  for (const auto& [json, place] : {std::pair(&config_json_, &files_.tokenizer_config.place),
                                    std::pair(&map_json_, &files_.special_tokens_map.place)}) {
    const JsonCursor object(*json, *place);
    for (const char* const role : roles) {
      const std::string key = std::string(role) + "_token";
      if (!object.has(key)) continue;
      if (object[key].is_present())
        add_special(role, object[key]);
      else
        special_.erase(role);
    }
    for (const char* const key : {"additional_special_tokens", "extra_special_tokens"}) {
      const JsonCursor more = object[key];
      if (!more.is_present()) continue;
      if (more.is_list())
        for (std::size_t i = 0; i < more.size(); ++i) add_special("", more[i]);
      else
        for (const auto& [name, value] : more.value().items()) add_special("", more[name]);
    }
  }
  // T5's sentinel tokens have the ids after the model's, in descending order.
  if (kind_ != SlowKind::t5) return;
  const JsonCursor count = config_["extra_ids"];
  const std::int64_t extra = count.is_present() ? count.integer(0, 1 << 16) : 100;
  for (std::int64_t i = extra - 1; i >= 0; --i) {
    const std::string text = fmt::format("<extra_id_{}>", i);
    const nlohmann::json json = text;
    add_special("", JsonCursor(json, files_.vocabulary.place));
    if (has(text)) continue;
    const auto id = static_cast<std::int64_t>(pieces_->pieces.size());
    pieces_->pieces.push_back({text});
    ids_[text] = id;
  }
  if (pieces_->model_type == SentencePieceFile::ModelType::unigram) read_pieces(*pieces_);
}

// Adds "added_tokens_decoder", or added_tokens.json of older versions, and the vocabulary's special
// tokens.
void SlowTokenizer::add_tokens() {
  const auto special_of = [&](const std::string& text) -> const Json* {
    for (const auto& [role, token] : special_)
      if (token["content"] == text) return &token;
    return nullptr;
  };
  const auto add = [&](std::int64_t id, Json token, const std::string& place) {
    const auto text = token["content"].get<std::string>();
    const auto [entry, is_new] = ids_.try_emplace(text, id);
    if (!is_new && entry->second != id)
      throw DataError("{}: token {} has id {}, but {} in {}",
                      place,
                      quote(text),
                      id,
                      entry->second,
                      files_.vocabulary.place);
    added_.insert_or_assign(id, std::move(token));
  };
  const JsonCursor decoder = config_["added_tokens_decoder"];
  if (decoder.is_present()) {
    for (const auto& [number, token] : decoder.value().items()) {
      std::int64_t id = -1;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
      if (error != std::errc() || end != number.data() + number.size() || id < 0 || id >= 1 << 24)
        decoder.throw_data_error("ids and their tokens");
      add(id, added_token(decoder[number], false), files_.tokenizer_config.place);
    }
  } else {
    const JsonCursor added(added_json_, files_.added_tokens.place);
    for (const auto& [text, id] : added_json_.items()) {
      const Json* const known = special_of(text);
      const nlohmann::json json = text;
      add(added[text].integer(0, (1 << 24) - 1),
          known ? *known : added_token(JsonCursor(json, files_.added_tokens.place), false),
          files_.added_tokens.place);
    }
  }
  for (const auto& [role, token] : special_) {
    const std::int64_t id = find(token["content"].get<std::string>());
    if (id < 0) continue;
    const auto [entry, is_new] = added_.try_emplace(id, token);
    if (!is_new) entry->second["special"] = true;
  }
  if (pieces_)
    for (std::size_t id = 0; id < pieces_->pieces.size(); ++id) {
      const auto& piece = pieces_->pieces[id];
      const bool is_control = piece.type == SentencePieceFile::PieceType::control;
      if (!is_control && piece.type != SentencePieceFile::PieceType::user_defined) continue;
      const nlohmann::json json = {{"content", piece.text}, {"normalized", false}};
      added_.try_emplace(static_cast<std::int64_t>(id),
                         added_token(JsonCursor(json, files_.vocabulary.place), is_control));
    }
  for (const auto& [id, token] : added_) {
    Json entry = {{"id", id}};
    entry.update(token);
    file_["added_tokens"].push_back(std::move(entry));
  }
}

void SlowTokenizer::check_ids() const {
  const auto refuse = [this](const char* key, const char* found, const char* expected) {
    throw DataError("{}: \"{}\": expected {}, found {}; save the tokenizer as tokenizer.json",
                    files_.tokenizer_config.place,
                    key,
                    expected,
                    found);
  };
  if (flag("split_special_tokens", false)) refuse("split_special_tokens", "true", "false");
  if (kind_ != SlowKind::bert) return;
  if (!flag("do_basic_tokenize", true)) refuse("do_basic_tokenize", "false", "true");
  const JsonCursor never = config_["never_split"];
  if (never.is_present() && never.size() > 0) refuse("never_split", "words", "none");
}

void SlowTokenizer::add_byte_level() {
  if (has_word_ends_ || !has(gpt2_space))
    throw DataError(
        "{}: expected the pieces of GPT-2 ({} for a space) or CLIP, found {}; save the tokenizer "
        "as tokenizer.json",
        files_.vocabulary.place,
        quote(gpt2_space),
        has_word_ends_ ? "pieces that end in </w> without <|startoftext|>"
                       : "no piece for a space");
  const bool is_qwen2 = kind_ == SlowKind::qwen2;
  const Json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", flag("add_prefix_space", false)},
                      {"trim_offsets", true},
                      {"use_regex", !is_qwen2}};
  file_["pre_tokenizer"] = level;
  file_["decoder"] = level;
  if (is_qwen2) {
    file_["normalizer"] = {{"type", "NFC"}};
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", qwen2_expression}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    file_["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, level}}};
  }
  if (kind_ == SlowKind::roberta) {
    const auto [cls, cls_id] = special("cls");
    const auto [sep, sep_id] = special("sep");
    file_["post_processor"] = {{"type", "RobertaProcessing"},
                               {"sep", Json::array({sep, sep_id})},
                               {"cls", Json::array({cls, cls_id})},
                               {"trim_offsets", true},
                               {"add_prefix_space", flag("add_prefix_space", false)}};
  }
  if (kind_ == SlowKind::gpt2 && flag("add_bos_token", false)) frame({"bos"}, {});
}

// Lowercases, and marks word ends in the pieces.
void SlowTokenizer::add_clip() {
  const Json blanks = {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}};
  file_["normalizer"] = {{"type", "Sequence"},
                         {"normalizers", {{{"type", "NFC"}}, blanks, {{"type", "Lowercase"}}}}};
  const Json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", true}};
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", clip_expression}}},
                      {"behavior", "Removed"},
                      {"invert", true}};
  file_["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, level}}};
  const auto [end, end_id] = special("eos");
  const auto [begin, begin_id] = special("bos");
  file_["post_processor"] = {{"type", "RobertaProcessing"},
                             {"sep", Json::array({end, end_id})},
                             {"cls", Json::array({begin, begin_id})},
                             {"trim_offsets", false},
                             {"add_prefix_space", false}};
  const Json ends = {{"type", "Replace"}, {"pattern", {{"String", word_end}}}, {"content", " "}};
  const Json last = {{"type", "Strip"}, {"content", " "}, {"start", 0}, {"stop", 1}};
  file_["decoder"] = {{"type", "Sequence"}, {"decoders", {level, ends, last}}};
  model_["unk_token"] = special("unk").first;
  model_["end_of_word_suffix"] = word_end;
}

void SlowTokenizer::add_bert() {
  // Without the key: capitals in the vocabulary imply a cased model.
  const bool has_capitals = std::ranges::any_of(ids_, [](const auto& entry) {
    const std::string& token = entry.first;
    return !token.starts_with('[') &&
           std::ranges::any_of(token, [](char c) { return c >= 'A' && c <= 'Z'; });
  });
  const JsonCursor accents = config_["strip_accents"];
  file_["normalizer"] = {{"type", "BertNormalizer"},
                         {"clean_text", true},
                         {"handle_chinese_chars", flag("tokenize_chinese_chars", true)},
                         {"strip_accents", nullptr},
                         {"lowercase", flag("do_lower_case", !has_capitals)}};
  if (accents.is_present()) file_["normalizer"]["strip_accents"] = accents.flag(false);
  file_["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  file_["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  model_["unk_token"] = special("unk").first;
  model_["continuing_subword_prefix"] = "##";
  model_["max_input_chars_per_word"] = 100;
  frame({"cls"}, {"sep"});
}

void SlowTokenizer::add_t5() {
  if (!pieces_->precompiled_charsmap.empty())
    file_["normalizer"] = {{"type", "Precompiled"},
                           {"precompiled_charsmap", to_base64(pieces_->precompiled_charsmap)}};
  const Json metaspace = {{"type", "Metaspace"},
                          {"replacement", piece_space},
                          {"prepend_scheme", "always"},
                          {"split", true}};
  file_["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers", {{{"type", "WhitespaceSplit"}}, metaspace}}};
  file_["decoder"] = metaspace;
  frame({}, {"eos"});
}

void SlowTokenizer::add_llama() {
  const bool prepends = pieces_->add_dummy_prefix && flag("add_prefix_space", true);
  auto steps = Json::array();
  const auto replace = [&](const char* kind, const char* pattern, const char* content) {
    steps.push_back(
        Json{{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}});
  };
  if (!pieces_->precompiled_charsmap.empty())
    steps.push_back(Json{{"type", "Precompiled"},
                         {"precompiled_charsmap", to_base64(pieces_->precompiled_charsmap)}});
  if (pieces_->remove_extra_whitespaces) {
    replace("Regex", R"((?<![\s\S]) +| +(?![\s\S]))", "");
    replace("Regex", " {2,}", " ");
  }
  // In older versions each part between added tokens begins with a space.
  const bool is_legacy = flag("legacy", true);
  if (is_legacy) {
    if (prepends) steps.push_back(Json{{"type", "Prepend"}, {"prepend", piece_space}});
    replace("String", " ", piece_space);
  }
  if (!steps.empty()) file_["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  if (!is_legacy) {
    file_["pre_tokenizer"] = {{"type", "Metaspace"},
                              {"replacement", piece_space},
                              {"prepend_scheme", prepends ? "first" : "never"},
                              {"split", false}};
  }
  auto decoders = Json::array();
  decoders.push_back(
      Json{{"type", "Replace"}, {"pattern", {{"String", piece_space}}}, {"content", " "}});
  decoders.push_back(Json{{"type", "ByteFallback"}});
  decoders.push_back(Json{{"type", "Fuse"}});
  if (prepends)
    decoders.push_back(Json{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  file_["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  std::vector<const char*> before, after;
  if (flag("add_bos_token", true)) before.push_back("bos");
  if (flag("add_eos_token", false)) after.push_back("eos");
  frame(before, after);
}

std::string SlowTokenizer::json() {
  read_vocabulary();
  const std::optional<SlowKind> configured = configured_kind();
  kind_ = configured ? *configured : found_kind();
  check_ids();
  read_special_tokens();
  add_tokens();
  switch (kind_) {
    case SlowKind::gpt2:
    case SlowKind::roberta:
    case SlowKind::qwen2:
      add_byte_level();
      break;
    case SlowKind::clip:
      add_clip();
      break;
    case SlowKind::bert:
      add_bert();
      break;
    case SlowKind::t5:
      add_t5();
      break;
    case SlowKind::llama:
      add_llama();
      break;
  }
  // Includes added tokens, whose ids may follow a gap.
  if (model_["type"] != "Unigram") {
    auto vocabulary = nlohmann::json::object();
    for (const auto& [text, id] : ids_) vocabulary[text] = id;
    model_["vocab"] = vocabulary;
  }
  file_["model"] = std::move(model_);
  try {
    return file_.dump() + "\n";
  } catch (const nlohmann::json::exception&) {
    throw DataError("{}: expected UTF-8",
                    (files_.merges.is_present() ? files_.merges : files_.vocabulary).place);
  }
}

}  // namespace

std::string json_of_slow_tokenizer(const SlowTokenizerFiles& files) {
  return SlowTokenizer(files).json();
}

std::string json_of_merges(std::string_view vocabulary,
                           const std::string& vocabulary_location,
                           std::string_view merges,
                           const std::string& merges_location) {
  return json_of_slow_tokenizer({.vocabulary = {vocabulary_location, std::string(vocabulary)},
                                 .merges = {merges_location, std::string(merges)}});
}

}  // namespace longspan
