// Program for peer_test.py.
//   tokenizer_ids TOKENIZER TEXT IDS DECODED     writes the ids of a text, of 4 bytes each, and the
//     decoded text. TOKENIZER: a file, or a folder with vocab.json and merges.txt. Prints the
//     processor time of encoding in seconds.
//   tokenizer_ids train bpe|wordpiece gpt2|llama3 VOCABULARY TEXT TOKENIZER     writes the
//     tokenizer.json trained on a text with the package's rules: the most frequent pair, ties by
//     smaller ids. Prints the processor time in seconds.
#include <fmt/core.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "framework/core/error.h"
#include "framework/tokenizers/json_tokenizer.h"
#include "framework/tokenizers/tokenizer_trainer.h"

namespace longspan {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string json_of(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return content_of(path);
  const std::string vocabulary = path + "/vocab.json";
  const std::string merges = path + "/merges.txt";
  return json_of_merges(content_of(vocabulary), vocabulary, content_of(merges), merges);
}

// Prints the processor time of all threads, which other processes do not affect.
void print_seconds(std::clock_t begin) {
  fmt::print("{:.6f}\n", static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
}

int print_ids(std::span<char*> arguments) {
  const JsonTokenizer tokenizer(json_of(arguments[1]), arguments[1]);
  const std::string text = content_of(arguments[2]);
  std::vector<std::int32_t> ids;
  std::int64_t end = 0;
  const std::clock_t begin = std::clock();
  tokenizer.encode(text, arguments[2], [&](const JsonToken& token) {
    ids.push_back(static_cast<std::int32_t>(token.id));
    require(token.end >= end, "a token ends before the one before it");
    end = token.end;
  });
  print_seconds(begin);
  require(end <= std::ssize(text), "tokens of {} bytes for a text of {}", end, text.size());
  std::ofstream(arguments[3], std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()),
             static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t)));
  const std::vector<std::int64_t> wide(ids.begin(), ids.end());
  std::ofstream(arguments[4], std::ios::binary) << tokenizer.decode(wide);
  return 0;
}

int print_trained(std::span<char*> arguments) {
  const bool is_of_bytes = std::string(arguments[2]) == "bpe";
  TokenizerRules rules =
      usual_rules(is_of_bytes ? TrainedKind::byte_pairs : TrainedKind::word_pieces);
  rules.cut = std::string(arguments[3]) == "llama3" ? WordCut::llama3 : WordCut::gpt2;
  rules.vocabulary = std::stoll(arguments[4]);
  rules.score = MergeScore::frequency;
  rules.ties = TieBreak::ids;
  const std::string text = content_of(arguments[5]);
  const std::clock_t begin = std::clock();
  const TokenizerTrainer trainer(rules);
  const std::string json = trainer.train(trainer.count(text), arguments[5]);
  print_seconds(begin);
  std::ofstream(arguments[6], std::ios::binary) << json;
  return 0;
}

}  // namespace
}  // namespace longspan

int main(int count, char** arguments) {
  const bool trains = count == 7 && std::string(arguments[1]) == "train";
  if (count != 5 && !trains) return 2;
  try {
    const std::span<char*> all(arguments, static_cast<std::size_t>(count));
    return trains ? longspan::print_trained(all) : longspan::print_ids(all);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  }
}
