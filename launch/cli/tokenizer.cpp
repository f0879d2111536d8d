#include "framework/data/tokenization/tokenizer.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <charconv>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/quote.h"
#include "framework/data/corpus/document_text.h"
#include "framework/data/corpus/path_pattern.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/tokenization/tokenizer_file.h"
#include "framework/data/tokenization/tokenizer_training.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"

namespace longspan {
namespace {

constexpr std::size_t text_at_once = std::size_t{1} << 16;  // bytes
constexpr const char* vocabulary_option = "--vocab-size";

struct TokenizerArguments {
  std::string text;
  std::string kind;
  std::int64_t vocabulary = 0;
  std::string output;
  std::string field;
  std::vector<std::string> special;
  std::string cut;
  std::string score;
  std::string ties;
  bool cased = false;
  std::string model;
  // The action of the second word.
  std::function<void(const TokenizerArguments&, const Session&)> act;
};

// Prints the result of `f(line, place)` for each line of standard input.
template <typename F>
void for_each_line_of_input(const Session& session, F&& f) {
  std::string text;
  std::string line;
  for (std::int64_t number = 1; std::getline(std::cin, line); ++number) {
    if (number == 1) line.erase(0, byte_order_mark(line, "standard input"));
    text += f(line, fmt::format("line {} of standard input", number)) + "\n";
    if (text.size() < text_at_once) continue;
    print(session, text);
    text.clear();
  }
  if (std::cin.bad()) throw Failure("standard input cannot be read");
  print(session, text);
}

std::vector<std::int64_t> read_ids(std::string_view line,
                                   const std::string& place,
                                   std::int64_t vocabulary) {
  constexpr std::string_view blanks = " \t\r";
  std::vector<std::int64_t> ids;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    if (line.empty()) return ids;
    const std::string_view word = line.substr(0, line.find_first_of(blanks));
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= vocabulary)
      throw DataError("{}: expected ids from 0 to {}, found {}",
                      place,
                      vocabulary - 1,
                      quote(std::string(word)));
    ids.push_back(id);
    line.remove_prefix(word.size());
  }
}

SentencePieceModelType kind_of(const std::string& name) {
  for (const SentencePieceModelType kind : {SentencePieceModelType::unigram,
                                            SentencePieceModelType::bpe,
                                            SentencePieceModelType::characters,
                                            SentencePieceModelType::words})
    if (name == name_of(kind)) return kind;
  throw ConfigurationError(
      "--model-type: expected unigram, bpe, char or word for a .model file, found {}", quote(name));
}

bool is_json(const std::string& path) { return path.ends_with(".json"); }

// Rejects options that do not apply to a .model file.
void require_none_of_json(const TokenizerArguments& arguments) {
  for (const auto& [name, is_set] : {std::pair("--special-tokens", !arguments.special.empty()),
                                     std::pair("--pre-tokenizer", !arguments.cut.empty()),
                                     std::pair("--merge-score", !arguments.score.empty()),
                                     std::pair("--tie-break", !arguments.ties.empty()),
                                     std::pair("--cased", arguments.cased)})
    if (is_set)
      throw ConfigurationError(
          "{} requires --output FILE.json, found {}", name, quote(arguments.output));
}

TokenizerRules json_rules(const TokenizerArguments& arguments) {
  if (!arguments.kind.empty() && arguments.kind != "bpe" && arguments.kind != "wordpiece")
    throw ConfigurationError(
        "--model-type: expected bpe or wordpiece for a tokenizer.json, found {}",
        quote(arguments.kind));
  const bool of_pieces = arguments.kind == "wordpiece";
  if (of_pieces && !arguments.cut.empty())
    throw ConfigurationError("--pre-tokenizer requires --model-type bpe");
  if (!of_pieces && arguments.cased)
    throw ConfigurationError("--cased requires --model-type wordpiece");
  TokenizerRules rules =
      usual_rules(of_pieces ? TrainedKind::word_pieces : TrainedKind::byte_pairs);
  rules.vocabulary = arguments.vocabulary;
  rules.vocabulary_key = vocabulary_option;
  if (!arguments.special.empty()) rules.special = arguments.special;
  if (arguments.cut == "llama3") rules.cut = WordCut::llama3;
  if (!arguments.score.empty())
    rules.score = arguments.score == "likelihood" ? MergeScore::likelihood : MergeScore::frequency;
  if (arguments.ties == "ids") rules.ties = TieBreak::ids;
  rules.lowercase = !arguments.cased;
  return rules;
}

std::vector<std::shared_ptr<const InputFile>> texts_of(const TokenizerArguments& arguments) {
  std::vector<std::shared_ptr<const InputFile>> texts;
  for (const ConfigPath& path : files_matching(arguments.text)) texts.push_back(open_text(path));
  return texts;
}

DocumentFormat form_of(const TokenizerArguments& arguments) {
  DocumentFormat form;
  if (!arguments.field.empty()) form.field = arguments.field;
  return form;
}

void train_json(const TokenizerArguments& arguments, const Session& session) {
  const TokenizerRules rules = json_rules(arguments);
  const JsonTokenizer tokenizer =
      train_json_tokenizer(texts_of(arguments), form_of(arguments).field, rules);
  write_json_tokenizer(tokenizer, arguments.output);
  print(session,
        fmt::format("{}: {} tokens ({})\n",
                    arguments.output,
                    tokenizer.vocabulary(),
                    rules.kind == TrainedKind::byte_pairs ? "bpe" : "wordpiece"));
}

void train(const TokenizerArguments& arguments, const Session& session) {
  if (is_json(arguments.output)) return train_json(arguments, session);
  require_none_of_json(arguments);
  const std::string kind = arguments.kind.empty() ? "unigram" : arguments.kind;
  const SentencePieceModel model = train_subwords_of_documents(texts_of(arguments),
                                                               form_of(arguments),
                                                               kind_of(kind),
                                                               arguments.vocabulary,
                                                               {},
                                                               vocabulary_option);
  write_subword_model(model, arguments.output);
  print(session, fmt::format("{}: {} pieces ({})\n", arguments.output, model.vocabulary(), kind));
}

// Opens a file tokenizer.json or a folder, or a .model file.
Tokenizer opened(const std::string& model) {
  std::error_code unused;
  if (is_json(model) || std::filesystem::is_directory(model, unused))
    return Tokenizer::from_huggingface(read_json_tokenizer(model));
  return Tokenizer::subwords(read_subword_model(model));
}

void encode(const TokenizerArguments& arguments, const Session& session) {
  const Tokenizer tokenizer = opened(arguments.model);
  for_each_line_of_input(session, [&](const std::string& line, const std::string& place) {
    return fmt::format("{}", fmt::join(tokenizer.encode(line, place), " "));
  });
}

void decode(const TokenizerArguments& arguments, const Session& session) {
  const Tokenizer tokenizer = opened(arguments.model);
  for_each_line_of_input(session, [&](const std::string& line, const std::string& place) {
    return tokenizer.decode(read_ids(line, place, tokenizer.vocabulary()));
  });
}

void bind_json_rules(CLI::App& sub, TokenizerArguments& arguments) {
  sub.add_option(
         "--text-field", arguments.field, "field of JSON lines with the text (default: \"text\")")
      ->check(not_empty_text());
  const auto one_of = [&sub](const char* name,
                             std::string& value,
                             const char* meaning,
                             std::vector<std::string> known) {
    sub.add_option(name, value, meaning)->check(CLI::IsMember(std::move(known)));
  };
  // One word at a time: CLI11 parses "[CLS]" as a list if an option accepts several.
  sub.add_option(
         "--special-tokens",
         arguments.special,
         "special token; repeatable, the special tokens have the first ids (default: "
         "<|endoftext|>, or [PAD], [UNK], [CLS], [SEP] and [MASK] with --model-type wordpiece). "
         "Only with --output FILE.json.")
      ->allow_extra_args(false)
      ->take_all();
  one_of("--pre-tokenizer",
         arguments.cut,
         "pre-tokenizer of GPT-2 (default) or of Llama 3. Only with --output FILE.json and "
         "--model-type bpe.",
         {"gpt2", "llama3"});
  one_of("--merge-score",
         arguments.score,
         "score of the pairs to merge: the frequency of a pair (default of bpe), or its ratio to "
         "those of the two parts (default of wordpiece). Only with --output FILE.json.",
         {"frequency", "likelihood"});
  one_of("--tie-break",
         arguments.ties,
         "order of pairs of equal score: smaller bytes first (default), or smaller ids first, as "
         "in the package tokenizers. Only with --output FILE.json.",
         {"bytes", "ids"});
  sub.add_flag("--cased",
               arguments.cased,
               "tokens with capitals and accents (default: lowercase without accents). Only with "
               "--output FILE.json and --model-type wordpiece.");
}

void bind_train(CLI::App& app, TokenizerArguments& arguments) {
  CLI::App* sub = app.add_subcommand("train", "Train a tokenizer on a corpus");
  sub->add_option("TEXT",
                  arguments.text,
                  "file of UTF-8 text or JSON lines, plain or compressed with gzip or zstd; a "
                  "pattern such as 'books/**/*.txt' matches several files. The training unit is a "
                  "line for a .model file, a document for a tokenizer.json.")
      ->required()
      ->check(not_empty_text());
  sub->add_option(vocabulary_option, arguments.vocabulary, "vocabulary size, in tokens")
      ->required()
      ->transform(whole_number<std::int64_t>(min_subword_vocabulary, max_subword_vocabulary));
  sub->add_option("--model-type",
                  arguments.kind,
                  "model type: for a .model file unigram (default), bpe, char or word; for a "
                  "tokenizer.json bpe (default) or wordpiece")
      ->check(CLI::IsMember({"unigram", "bpe", "char", "word", "wordpiece"}));
  sub->add_option("--output",
                  arguments.output,
                  "file to write: a SentencePiece .model file, or a tokenizer.json (a name that "
                  "ends in .json)")
      ->required()
      ->check(not_empty_text());
  bind_json_rules(*sub, arguments);
  sub->callback([&arguments] { arguments.act = train; });
}

void bind_coding(CLI::App& app,
                 TokenizerArguments& arguments,
                 const std::string& name,
                 const std::string& description,
                 void (*act)(const TokenizerArguments&, const Session&)) {
  CLI::App* sub = app.add_subcommand(name, description);
  sub->add_option("MODEL",
                  arguments.model,
                  "SentencePiece .model file, tokenizer.json, or directory with a tokenizer.json "
                  "or the files of a slow tokenizer, such as vocab.json and merges.txt or "
                  "vocab.txt")
      ->required()
      ->check(not_empty_text());
  sub->callback([&arguments, act] { arguments.act = act; });
}

ExitCode run_tokenizer(const TokenizerArguments& arguments, Session& session) {
  if (session.world().rank() == 0) arguments.act(arguments, session);
  return ExitCode::ok;
}

}  // namespace

Command tokenizer_command() {
  return {
      "tokenizer",
      "Train a tokenizer, or encode or decode text with one",
      "  longspan tokenizer train book.txt --vocab-size 8000 --model-type bpe --output book.model\n"
      "  longspan tokenizer train book.txt --vocab-size 8000 --model-type wordpiece --output "
      "tokenizer.json\n"
      "  longspan tokenizer encode book.model < book.txt > book.ids\n"
      "  longspan tokenizer decode book.model < book.ids\n",
      [](CLI::App& app) -> Action {
        auto arguments = std::make_shared<TokenizerArguments>();
        app.require_subcommand(1);
        bind_train(app, *arguments);
        bind_coding(app,
                    *arguments,
                    "encode",
                    "Print the token ids of standard input, line by line",
                    encode);
        bind_coding(app,
                    *arguments,
                    "decode",
                    "Print the text of the token ids in standard input, line by line",
                    decode);
        return [arguments](Session& session) { return run_tokenizer(*arguments, session); };
      }};
}

}  // namespace longspan
