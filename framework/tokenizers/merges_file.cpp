#include "framework/core/error.h"
#include "framework/core/json_bounds.h"
#include "framework/core/option_text.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/tokenizers/word_model.h"

namespace longspan {
namespace {

constexpr const char* end_of_text = "<|endoftext|>";

nlohmann::ordered_json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", true}};
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
  std::int64_t line_number = 0;
  while (!merges.empty()) {
    const std::size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      throw DataError("{}:{}: found {}; wanted two pieces with a space between them",
                      merges_place,
                      line_number,
                      in_quotes(line));
    pairs.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  nlohmann::ordered_json file = {{"version", "1.0"}};
  file["added_tokens"] = nlohmann::ordered_json::array();
  if (const std::int32_t id = read.ids.find(end_of_text); id >= 0)
    file["added_tokens"].push_back(
        {{"id", id}, {"content", end_of_text}, {"normalized", false}, {"special", true}});
  file["pre_tokenizer"] = byte_level();
  file["decoder"] = byte_level();
  file["model"] = {{"type", "BPE"}, {"vocab", ids}, {"merges", pairs}};
  try {
    return file.dump() + "\n";
  } catch (const nlohmann::json::exception&) {
    throw DataError("{}: is not UTF-8", merges_place);
  }
}

}  // namespace longspan
