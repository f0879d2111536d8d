#include "framework/data/tokenization/tokenizer_file.h"

#include <filesystem>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/json_bounds.h"
#include "framework/data/atomic_file.h"
#include "framework/data/corpus/text_input.h"
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

}  // namespace longspan
