#include "framework/data/tokenizer_file.h"

#include <filesystem>

#include "framework/core/error.h"
#include "framework/core/input_file.h"
#include "framework/core/json_bounds.h"
#include "framework/data/new_file.h"

namespace longspan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_bytes = std::int64_t{64} << 20;

std::string content_of(const NamedPath& path) {
  const InputFile file(path);
  if (file.size() > most_bytes)
    throw DataError(
        "{}: has {} bytes; a tokenizer has at most {}", path.told(), file.size(), most_bytes);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.copy(0, text);
  return text;
}

// A checkpoint has it as a text in a text, where quotes and ends of lines take more.
JsonTokenizer checked(JsonTokenizer tokenizer, const std::string& place) {
  std::size_t bytes = 0;
  for (const char letter : tokenizer.json())
    bytes += letter == '"' || letter == '\\' ? 4 : (letter == '\n' ? 3 : 1);
  if (bytes >= JsonBounds::most_text)
    throw DataError("{}: takes {} bytes in a checkpoint, which holds at most {}",
                    place,
                    bytes,
                    JsonBounds::most_text);
  return tokenizer;
}

}  // namespace

std::optional<std::string> tokenizer_file_in(const std::string& folder) {
  std::error_code unused;
  const fs::path inside(folder);
  if (fs::exists(inside / "tokenizer.json", unused)) return (inside / "tokenizer.json").string();
  const bool has_both =
      fs::exists(inside / "vocab.json", unused) && fs::exists(inside / "merges.txt", unused);
  if (has_both) return (inside / "vocab.json").string();
  return std::nullopt;
}

void write_json_tokenizer(const JsonTokenizer& tokenizer, const std::string& path) {
  NewFile file(path);
  file.write(tokenizer.json());
  file.finish();
}

JsonTokenizer read_json_tokenizer(const NamedPath& path) {
  std::error_code unused;
  if (!fs::is_directory(path.text(), unused))
    return checked(JsonTokenizer(content_of(path), path.told()), path.told());
  const std::optional<std::string> file = tokenizer_file_in(path.text());
  if (!file)
    throw DataError("{}: found no tokenizer.json in it, nor vocab.json with merges.txt",
                    path.told());
  if (file->ends_with("tokenizer.json"))
    return checked(JsonTokenizer(content_of(*file), *file), *file);
  const std::string merges = (fs::path(path.text()) / "merges.txt").string();
  return checked(
      JsonTokenizer(json_of_merges(content_of(*file), *file, content_of(merges), merges), *file),
      *file);
}

}  // namespace longspan
