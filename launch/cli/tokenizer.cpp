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
#include "framework/core/text_format.h"
#include "framework/data/corpus/document_text.h"
#include "framework/data/corpus/path_pattern.h"
#include "framework/data/corpus/text_input.h"
#include "framework/data/tokenization/subword_training.h"
#include "framework/data/tokenization/tokenizer_file.h"
#include "framework/data/tokenization/tokenizer_training.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"

namespace longspan {
namespace {

constexpr std::size_t text_at_once = std::size_t{1} << 16;  // bytes

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
  // What the second word asks for.
  std::function<void(const TokenizerArguments&, const Session&)> act;
};

// Prints what `f(line, place)` makes of each line of standard input.
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
      throw DataError(
          "{}: found {}; wanted ids from 0 to {}", place, quote(std::string(word)), vocabulary - 1);
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
  throw ConfigurationError("--kind: found {}; a .model file is of kind unigram, bpe, char or word",
                           quote(name));
}

bool is_json(const std::string& path) { return path.ends_with(".json"); }

// What a .model file has no use for.
void require_none_of_json(const TokenizerArguments& arguments) {
  for (const auto& [name, is_set] : {std::pair("--special", !arguments.special.empty()),
                                     std::pair("--cut", !arguments.cut.empty()),
                                     std::pair("--score", !arguments.score.empty()),
                                     std::pair("--ties", !arguments.ties.empty()),
                                     std::pair("--cased", arguments.cased)})
    if (is_set)
      throw ConfigurationError("{} is of a tokenizer.json, and --output is {}; name it FILE.json",
                               name,
                               quote(arguments.output));
}

TokenizerRules json_rules(const TokenizerArguments& arguments) {
  if (!arguments.kind.empty() && arguments.kind != "bpe" && arguments.kind != "wordpiece")
    throw ConfigurationError("--kind: found {}; a tokenizer.json is of kind bpe or wordpiece",
                             quote(arguments.kind));
  const bool of_pieces = arguments.kind == "wordpiece";
  if (of_pieces && !arguments.cut.empty())
    throw ConfigurationError("--cut is of --kind bpe; WordPiece cuts as BERT does");
  if (!of_pieces && arguments.cased)
    throw ConfigurationError("--cased is of --kind wordpiece; bpe keeps what it reads");
  TokenizerRules rules =
      usual_rules(of_pieces ? TrainedKind::word_pieces : TrainedKind::byte_pairs);
  rules.vocabulary = arguments.vocabulary;
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
        fmt::format("{}: {} tokens of kind {}\n",
                    arguments.output,
                    tokenizer.vocabulary(),
                    rules.kind == TrainedKind::byte_pairs ? "bpe" : "wordpiece"));
}

void train(const TokenizerArguments& arguments, const Session& session) {
  if (is_json(arguments.output)) return train_json(arguments, session);
  require_none_of_json(arguments);
  const std::string kind = arguments.kind.empty() ? "unigram" : arguments.kind;
  const SentencePieceModel model = train_subwords_of_documents(
      texts_of(arguments), form_of(arguments), kind_of(kind), arguments.vocabulary);
  write_subword_model(model, arguments.output);
  print(session,
        fmt::format("{}: {} pieces of kind {}\n", arguments.output, model.vocabulary(), kind));
}

// Of a file tokenizer.json or a folder, or of a .model file.
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
  sub.add_option("--text-field",
                 arguments.field,
                 "of JSON lines: the field of each that has the text (without it \"text\")")
      ->check(not_empty_text());
  const auto one_of = [&sub](const char* name,
                             std::string& value,
                             const char* meaning,
                             std::vector<std::string> known) {
    sub.add_option(name, value, meaning)->check(CLI::IsMember(std::move(known)));
  };
  // One word at a time: CLI11 takes "[CLS]" for a list where an option takes several.
  sub.add_option(
         "--special",
         arguments.special,
         "of a tokenizer.json: a token that stands for no text; given again for each one. "
         "They have the first ids. Without it <|endoftext|>, or BERT's [PAD], [UNK], [CLS], "
         "[SEP] and [MASK]")
      ->allow_extra_args(false)
      ->take_all();
  one_of("--cut",
         arguments.cut,
         "of a tokenizer.json of kind bpe: how words are cut, as GPT-2 does (without it) or as "
         "Llama 3",
         {"gpt2", "llama3"});
  one_of(
      "--score",
      arguments.score,
      "of a tokenizer.json: which pair is merged next, the most frequent one, which is usual for "
      "bpe, or the one whose frequency is largest for those of its two parts, for wordpiece",
      {"frequency", "likelihood"});
  one_of("--ties",
         arguments.ties,
         "of a tokenizer.json: which of several such pairs, that of smaller bytes (without it) or "
         "that of smaller ids, as the package tokenizers takes them",
         {"bytes", "ids"});
  sub.add_flag("--cased",
               arguments.cased,
               "of a tokenizer.json of kind wordpiece: keep capitals and accents");
}

void bind_train(CLI::App& app, TokenizerArguments& arguments) {
  CLI::App* sub = app.add_subcommand("train", "Make a model of a text");
  sub->add_option("TEXT",
                  arguments.text,
                  "the text, in UTF-8, which may be compressed by gzip or zstd, or JSON lines; "
                  "several are named by a pattern as 'books/**/*.txt'. Each line is a sentence to "
                  "a .model file; all of a text is a document to a tokenizer.json")
      ->required()
      ->check(not_empty_text());
  sub->add_option("--vocabulary", arguments.vocabulary, "the number of ids")
      ->required()
      ->transform(whole_number<std::int64_t>(least_subword_vocabulary, most_subword_vocabulary));
  sub->add_option("--kind",
                  arguments.kind,
                  "what the pieces are: of a .model file unigram (without it), bpe, char or word; "
                  "of a tokenizer.json bpe (without it) or wordpiece")
      ->check(CLI::IsMember({"unigram", "bpe", "char", "word", "wordpiece"}));
  sub->add_option("--output",
                  arguments.output,
                  "the file to write: a .model file of SentencePiece, or a tokenizer.json, whose "
                  "name ends in .json")
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
                  "a .model file of SentencePiece, a tokenizer.json, or a folder with that or with "
                  "the files of a slow tokenizer, such as vocab.json and merges.txt or vocab.txt")
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
  return {"tokenizer",
          "Make a subword model of a text, or apply one",
          "  longspan tokenizer train book.txt --vocabulary 8000 --kind bpe --output book.model\n"
          "  longspan tokenizer train book.txt --vocabulary 8000 --kind wordpiece --output "
          "tokenizer.json\n"
          "  longspan tokenizer encode book.model < book.txt > book.ids\n"
          "  longspan tokenizer decode book.model < book.ids\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<TokenizerArguments>();
            app.require_subcommand(1);
            bind_train(app, *arguments);
            bind_coding(
                app, *arguments, "encode", "Print the ids of standard input, line by line", encode);
            bind_coding(app,
                        *arguments,
                        "decode",
                        "Print the text of the ids in standard input, line by line",
                        decode);
            return [arguments](Session& session) { return run_tokenizer(*arguments, session); };
          }};
}

}  // namespace longspan
