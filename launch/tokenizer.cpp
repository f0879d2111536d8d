#include "framework/data/tokenizer.h"

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

#include "framework/core/option_text.h"
#include "framework/data/mapped_file.h"
#include "framework/data/subword_training.h"
#include "framework/data/tokenizer_file.h"
#include "launch/command.h"
#include "launch/number_check.h"

namespace longspan {
namespace {

constexpr std::size_t text_at_once = std::size_t{1} << 16;  // bytes

struct Arguments {
  std::string text;
  std::string kind = "unigram";
  std::int64_t vocabulary = 0;
  std::string output;
  std::string model;
  // What the second word asks for.
  std::function<void(const Arguments&, const Session&)> act;
};

// Prints what `f(line, place)` makes of each line of standard input.
template <typename F>
void for_each_line_of_input(const Session& session, F&& f) {
  std::string text;
  std::string line;
  for (std::int64_t number = 1; std::getline(std::cin, line); ++number) {
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
      throw DataError("{}: found {}; wanted ids from 0 to {}",
                      place,
                      in_quotes(std::string(word)),
                      vocabulary - 1);
    ids.push_back(id);
    line.remove_prefix(word.size());
  }
}

SubwordKind kind_of(const std::string& name) {
  for (const SubwordKind kind :
       {SubwordKind::unigram, SubwordKind::bpe, SubwordKind::characters, SubwordKind::words})
    if (name == name_of(kind)) return kind;
  throw ConfigurationError("--kind: found {}", in_quotes(name));
}

void train(const Arguments& arguments, const Session& session) {
  const SubwordModel model =
      train_subwords(MappedFile(arguments.text), kind_of(arguments.kind), arguments.vocabulary);
  write_subword_model(model, arguments.output);
  print(session,
        fmt::format(
            "{}: {} pieces of kind {}\n", arguments.output, model.vocabulary(), arguments.kind));
}

// Of a file tokenizer.json or a folder, or of a .model file.
Tokenizer opened(const std::string& model) {
  std::error_code unused;
  if (model.ends_with(".json") || std::filesystem::is_directory(model, unused))
    return Tokenizer::of_package(read_json_tokenizer(model));
  return Tokenizer::subwords(read_subword_model(model));
}

void encode(const Arguments& arguments, const Session& session) {
  const Tokenizer tokenizer = opened(arguments.model);
  for_each_line_of_input(session, [&](const std::string& line, const std::string& place) {
    return fmt::format("{}", fmt::join(tokenizer.encode(line, place), " "));
  });
}

void decode(const Arguments& arguments, const Session& session) {
  const Tokenizer tokenizer = opened(arguments.model);
  for_each_line_of_input(session, [&](const std::string& line, const std::string& place) {
    return tokenizer.decode(read_ids(line, place, tokenizer.vocabulary()));
  });
}

void bind_train(CLI::App& app, Arguments& arguments) {
  CLI::App* sub = app.add_subcommand("train", "Make a model of a text");
  sub->add_option("TEXT", arguments.text, "the text, in UTF-8; each line is a sentence")
      ->required()
      ->check(not_empty_text());
  sub->add_option("--vocabulary", arguments.vocabulary, "the number of ids")
      ->required()
      ->transform(whole_number<std::int64_t>(least_subword_vocabulary, most_subword_vocabulary));
  sub->add_option("--kind", arguments.kind, "what the pieces are")
      ->check(CLI::IsMember({"unigram", "bpe", "char", "word"}))
      ->capture_default_str();
  sub->add_option("--output", arguments.output, "the .model file to write")
      ->required()
      ->check(not_empty_text());
  sub->callback([&arguments] { arguments.act = train; });
}

void bind_coding(CLI::App& app,
                 Arguments& arguments,
                 const std::string& name,
                 const std::string& description,
                 void (*act)(const Arguments&, const Session&)) {
  CLI::App* sub = app.add_subcommand(name, description);
  sub->add_option("MODEL",
                  arguments.model,
                  "a .model file of SentencePiece, a tokenizer.json, or a folder with that or with "
                  "vocab.json and merges.txt")
      ->required()
      ->check(not_empty_text());
  sub->callback([&arguments, act] { arguments.act = act; });
}

ExitCode run(const Arguments& arguments, Session& session) {
  if (session.world().rank() == 0) arguments.act(arguments, session);
  return ExitCode::ok;
}

}  // namespace

Command tokenizer_command() {
  return {"tokenizer",
          "Make a subword model of a text, or apply one",
          "  longspan tokenizer train book.txt --vocabulary 8000 --kind bpe --output book.model\n"
          "  longspan tokenizer encode book.model < book.txt > book.ids\n"
          "  longspan tokenizer decode book.model < book.ids\n",
          [](CLI::App& app) -> Action {
            auto arguments = std::make_shared<Arguments>();
            app.require_subcommand(1);
            bind_train(app, *arguments);
            bind_coding(
                app, *arguments, "encode", "Print the ids of standard input, line by line", encode);
            bind_coding(app,
                        *arguments,
                        "decode",
                        "Print the text of the ids in standard input, line by line",
                        decode);
            return [arguments](Session& session) { return run(*arguments, session); };
          }};
}

}  // namespace longspan
