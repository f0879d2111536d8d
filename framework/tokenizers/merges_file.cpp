#include "framework/core/error.h"
#include "framework/core/json_bounds.h"
#include "framework/core/option_text.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/tokenizers/word_model.h"

namespace longspan {
namespace {

constexpr const char* end_of_text = "<|endoftext|>";
constexpr const char* start_of_text = "<|startoftext|>";
constexpr std::string_view word_end = "</w>";
constexpr std::string_view gpt2_space = "\u0120";  // as GPT-2 writes it
// How CLIP cuts a text (Radford et al. 2021).
constexpr const char* clip_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

nlohmann::ordered_json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", true}};
}

void add_special(const WordVocabulary& vocabulary,
                 const char* name,
                 nlohmann::ordered_json& tokens) {
  if (const std::int32_t id = vocabulary.ids.find(name); id >= 0)
    tokens.push_back({{"id", id}, {"content", name}, {"normalized", false}, {"special", true}});
}

// Small letters, and pieces that say where a word ends.
void add_clip(const WordVocabulary& vocabulary, nlohmann::ordered_json& file) {
  add_special(vocabulary, start_of_text, file["added_tokens"]);
  add_special(vocabulary, end_of_text, file["added_tokens"]);
  using Json = nlohmann::ordered_json;
  const Json blanks = {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}};
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", {{{"type", "NFC"}}, blanks, {{"type", "Lowercase"}}}}};
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", clip_expression}}},
                      {"behavior", "Removed"},
                      {"invert", true}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, byte_level()}}};
  file["post_processor"] = {
      {"type", "RobertaProcessing"},
      {"sep", Json::array({end_of_text, vocabulary.ids.find(end_of_text)})},
      {"cls", Json::array({start_of_text, vocabulary.ids.find(start_of_text)})},
      {"trim_offsets", false},
      {"add_prefix_space", false}};
  const Json ends = {{"type", "Replace"}, {"pattern", {{"String", word_end}}}, {"content", " "}};
  const Json last = {{"type", "Strip"}, {"content", " "}, {"start", 0}, {"stop", 1}};
  file["decoder"] = {{"type", "Sequence"}, {"decoders", {byte_level(), ends, last}}};
}

// What the two files do not say themselves: whose they are.
void add_steps(const WordVocabulary& vocabulary,
               bool has_word_ends,
               const std::string& place,
               nlohmann::ordered_json& file) {
  const auto has = [&vocabulary](std::string_view text) { return vocabulary.ids.find(text) >= 0; };
  if (has_word_ends && has(start_of_text) && has(end_of_text)) return add_clip(vocabulary, file);
  if (has_word_ends || !has(gpt2_space))
    throw DataError(
        "{}: {}; wanted the pieces of GPT-2, which have {} for a space, or of CLIP; a "
        "tokenizer.json says how other ones are read",
        place,
        has_word_ends ? "has pieces that end in </w> and no <|startoftext|>"
                      : "has no piece for a space",
        in_quotes(gpt2_space));
  add_special(vocabulary, end_of_text, file["added_tokens"]);
  file["pre_tokenizer"] = byte_level();
  file["decoder"] = byte_level();
}

}  // namespace

std::string json_of_merges(std::string_view vocabulary,
                           const std::string& vocabulary_place,
                           std::string_view merges,
                           const std::string& merges_place) {
  require_json_bounds(vocabulary, vocabulary_place);
  nlohmann::json ids;
  try {
    ids = nlohmann::json::parse(vocabulary);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: is not JSON: {}", vocabulary_place, shortened(error.what(), 200));
  }
  const WordVocabulary read = read_word_vocabulary(JsonPlace(ids, vocabulary_place));
  auto pairs = nlohmann::json::array();
  bool has_word_ends = false;
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
      throw DataError("{}:{}: found {}; wanted two pieces with a space between them",
                      merges_place,
                      line_number,
                      in_quotes(line));
    pairs.push_back({line.substr(0, blank), line.substr(blank + 1)});
    has_word_ends = has_word_ends || line.ends_with(word_end);
  }
  nlohmann::ordered_json file = {{"version", "1.0"}};
  file["added_tokens"] = nlohmann::ordered_json::array();
  add_steps(read, has_word_ends, vocabulary_place, file);
  file["model"] = {{"type", "BPE"}, {"vocab", ids}, {"merges", pairs}};
  if (has_word_ends) {
    file["model"]["unk_token"] = end_of_text;
    file["model"]["end_of_word_suffix"] = word_end;
  }
  try {
    return file.dump() + "\n";
  } catch (const nlohmann::json::exception&) {
    throw DataError("{}: is not UTF-8", merges_place);
  }
}

}  // namespace longspan
