#include "framework/tokenizers/text_parts.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "framework/tokenizers/characters.h"
#include "framework/tokenizers/chunk_boundaries.h"

namespace longspan {

namespace {

std::string text_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

bool flag_of(const nlohmann::json& json, const char* key, bool otherwise) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

bool is_one_character(std::string_view text) {
  return !text.empty() && next_character(text).width == text.size();
}

bool has_space(std::string_view text) {
  return text.find(' ') != std::string_view::npos ||
         text.find(space_letter) != std::string_view::npos;
}

bool replaces_by_parts(const nlohmann::json& step) {
  const auto pattern = step.find("pattern");
  if (pattern == step.end()) return false;
  const std::string content = text_of(step, "content");
  if (const std::string expression = text_of(*pattern, "Regex"); !expression.empty())
    return expression == " {2,}" || expression == " +" || expression == "\\s+";
  const std::string text = text_of(*pattern, "String");
  if (text == " ") return content == " " || content == space_letter;
  const bool has_blank =
      std::ranges::any_of(content, [](char c) { return c == ' ' || (c >= 9 && c <= 13); });
  return !text.empty() && !has_space(text) && !has_blank;
}

bool is_of_characters(const std::string& type) {
  static constexpr std::array known = {
      "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel", "Precompiled"};
  return std::ranges::find(known, type) != known.end();
}

// Flattens nested sequences of steps; returns false for an invalid step.
bool add_steps(const nlohmann::json& json,
               const char* key,
               std::vector<const nlohmann::json*>& steps) {
  if (!json.is_object()) return false;
  if (text_of(json, "type") != "Sequence") {
    steps.push_back(&json);
    return true;
  }
  const auto list = json.find(key);
  return list != json.end() && list->is_array() &&
         std::ranges::all_of(*list, [&](const auto& step) { return add_steps(step, key, steps); });
}

PartCut cut_of_split(const nlohmann::json& step) {
  const auto pattern = step.find("pattern");
  if (pattern == step.end()) return PartCut::depends;
  const std::string behavior = text_of(step, "behavior");
  const bool inverts = flag_of(step, "invert", false);
  if (const std::string expression = text_of(*pattern, "Regex"); !expression.empty()) {
    const bool has_matches =
        (behavior == "Isolated" && !inverts) || (behavior == "Removed" && inverts);
    return has_matches && cuts_at_blanks(expression) ? PartCut::cuts : PartCut::depends;
  }
  const std::string text = text_of(*pattern, "String");
  if (text == " ")
    return behavior != "MergedWithPrevious" && !inverts ? PartCut::cuts : PartCut::keeps;
  const bool is_local = is_one_character(text) || (!text.empty() && !has_space(text));
  return is_local ? PartCut::keeps : PartCut::depends;
}

PartCut cut_of_step(const nlohmann::json& step) {
  const std::string type = text_of(step, "type");
  const auto where = [](bool cuts) { return cuts ? PartCut::cuts : PartCut::keeps; };
  if (type == "ByteLevel") return where(flag_of(step, "use_regex", true));
  if (type == "Split") return cut_of_split(step);
  if (type == "Metaspace") return where(flag_of(step, "split", true));
  if (type == "CharDelimiterSplit") return where(text_of(step, "delimiter") == " ");
  if (type == "Punctuation" || type == "Digits") return PartCut::keeps;
  if (type == "Whitespace" || type == "WhitespaceSplit" || type == "BertPreTokenizer")
    return PartCut::cuts;
  return PartCut::depends;
}

}  // namespace

std::optional<nlohmann::json> normalizer_of_later_parts(const nlohmann::json& normalizer) {
  if (normalizer.is_null()) return normalizer;
  std::vector<const nlohmann::json*> steps;
  if (!add_steps(normalizer, "normalizers", steps)) return std::nullopt;
  auto later = nlohmann::json::array();
  for (const nlohmann::json* const step : steps) {
    const std::string type = text_of(*step, "type");
    // Prepend affects only the first part.
    if (type == "Prepend") continue;
    // BertNormalizer puts blanks around ideographs. Combined with a step that changes blanks, its
    // effect may extend into the next part.
    const bool is_alone = steps.size() == 1;
    const bool goes = is_of_characters(type) || (type == "BertNormalizer" && is_alone) ||
                      (type == "Replace" && replaces_by_parts(*step));
    if (!goes) return std::nullopt;
    later.push_back(*step);
  }
  if (later.empty()) return nlohmann::json();
  return nlohmann::json{{"type", "Sequence"}, {"normalizers", later}};
}

PartCut cut_of_parts(const nlohmann::json& pre_tokenizer) {
  if (pre_tokenizer.is_null()) return PartCut::keeps;
  std::vector<const nlohmann::json*> steps;
  if (!add_steps(pre_tokenizer, "pretokenizers", steps)) return PartCut::depends;
  PartCut all = PartCut::keeps;
  for (const nlohmann::json* const step : steps) {
    const PartCut cut = cut_of_step(*step);
    if (cut == PartCut::depends) return cut;
    if (cut == PartCut::cuts) all = cut;
  }
  return all;
}

namespace {

std::int64_t id_of(const JsonCursor& json) { return json.integer(0, (1 << 24) - 1); }

TokenTemplate read_single(const JsonCursor& json) {
  TokenTemplate result;
  const JsonCursor single = json["single"];
  bool has_text = false;
  for (std::size_t i = 0; i < single.size(); ++i) {
    const JsonCursor part = single[i];
    if (part.has("Sequence")) {
      if (has_text || part["Sequence"]["id"].text() != "A")
        part.throw_data_error("the sequence A, once");
      has_text = true;
      continue;
    }
    const JsonCursor token = json["special_tokens"][part["SpecialToken"]["id"].text()];
    const JsonCursor ids = token["ids"];
    for (std::size_t j = 0; j < ids.size(); ++j)
      (has_text ? result.after : result.before).push_back(id_of(ids[j]));
  }
  if (!has_text) single.throw_data_error("the sequence A in it");
  return result;
}

}  // namespace

TokenTemplate read_token_template(const JsonCursor& json) {
  if (!json.is_present()) return {};
  const JsonCursor type = json["type"];
  const std::string& kind = type.text();
  if (kind == "TemplateProcessing") return read_single(json);
  if (kind == "BertProcessing" || kind == "RobertaProcessing")
    return {{id_of(json["cls"][std::size_t{1}])}, {id_of(json["sep"][std::size_t{1}])}};
  if (kind == "ByteLevel") return {};
  if (kind != "Sequence")
    type.unknown("TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence");
  TokenTemplate result;
  const JsonCursor list = json["processors"];
  for (std::size_t i = 0; i < list.size(); ++i) {
    const TokenTemplate step = read_token_template(list[i]);
    result.before.insert(result.before.begin(), step.before.begin(), step.before.end());
    result.after.insert(result.after.end(), step.after.begin(), step.after.end());
  }
  return result;
}

namespace {

constexpr std::size_t slots = std::size_t{1} << 18;

}  // namespace

WordCache::WordCache() : slots_(slots) {}

std::span<const WordToken> WordCache::encode(std::string_view word, const WordModel& model) {
  if (2 * words_ > slots) *this = WordCache();
  const std::uint64_t hash = XXH3_64bits(word.data(), word.size()) | 1;
  std::size_t at = (hash >> 1) & (slots - 1);
  for (; slots_[at].hash != 0; at = (at + 1) & (slots - 1)) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && std::string_view(texts_).substr(slot.text, slot.bytes) == word)
      return std::span(tokens_).subspan(slot.tokens, slot.count);
  }
  const std::size_t begin = tokens_.size();
  model.encode(word, tokens_);
  slots_[at] = {hash,
                static_cast<std::uint32_t>(texts_.size()),
                static_cast<std::uint32_t>(begin),
                static_cast<std::uint16_t>(word.size()),
                static_cast<std::uint16_t>(tokens_.size() - begin)};
  texts_.append(word);
  ++words_;
  return std::span(tokens_).subspan(begin);
}

}  // namespace longspan
