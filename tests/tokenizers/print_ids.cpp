// For peer_test.py: the ids of a text by a tokenizer.json, and what they are decoded to.
//   tokenizer_ids TOKENIZER TEXT IDS DECODED     IDS: 4 bytes each; prints the seconds of encoding
#include <fmt/core.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <span>

#include "framework/core/error.h"
#include "framework/tokenizers/json_tokenizer.h"

namespace longspan {
namespace {

std::string content_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int print_ids(std::span<char*> arguments) {
  const JsonTokenizer tokenizer(content_of(arguments[1]), arguments[1]);
  const std::string text = content_of(arguments[2]);
  std::vector<std::int32_t> ids;
  std::int64_t end = 0;
  const auto begin = std::chrono::steady_clock::now();
  tokenizer.encode(text, arguments[2], [&](const JsonToken& token) {
    ids.push_back(static_cast<std::int32_t>(token.id));
    require(token.end >= end, "a token ends before the one before it");
    end = token.end;
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  require(end <= std::ssize(text), "tokens of {} bytes for a text of {}", end, text.size());
  std::ofstream(arguments[3], std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()),
             static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t)));
  const std::vector<std::int64_t> wide(ids.begin(), ids.end());
  std::ofstream(arguments[4], std::ios::binary) << tokenizer.decode(wide);
  fmt::print("{:.6f}\n", seconds.count());
  return 0;
}

}  // namespace
}  // namespace longspan

int main(int count, char** arguments) {
  if (count != 5) return 2;
  try {
    return longspan::print_ids({arguments, 5});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  }
}
