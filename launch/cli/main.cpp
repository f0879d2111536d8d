// The only main(): parses the command line, opens the session and runs the subcommand. Turns every
// exception into one message on one rank and an exit code.
#include <fcntl.h>
#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/run_options.h"
#include "framework/core/crash_handler.h"
#include "framework/core/quote.h"
#include "framework/core/system.h"
#include "framework/distributed/session.h"
#include "framework/options/field_names.h"
#include "launch/cli/command.h"
#include "launch/cli/command_table.h"
#include "launch/cli/launch.h"
#include "launch/cli/reference.h"
#include "launch/cli/version.h"

namespace longspan {
namespace {

std::vector<Command> commands() {
  return {launch_command(),
          train_command(),
          evaluate_command(),
          generate_command(),
          list_command(),
          compare_command(),
          tail_command(),
          config_command(),
          plan_command(),
          inspect_command(),
          verify_command(),
          report_command(),
          attention_maps_command(),
          tokenizer_command(),
          tokenize_data_command(),
          import_command(),
          export_command(),
          completion_command(),
          man_command()};
}

// Whether this process reports help and command-line errors. They come before MPI, and every rank
// has the same, so only one reports.
bool speaks() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* rank = std::getenv(name);
    if (rank != nullptr) return std::string(rank) == "0";
  }
  return true;
}

struct CommandLine {
  Action action;  // empty: nothing left to do
  ExitCode code = ExitCode::ok;
};

CommandLine mistake(const std::string& sentence, ExitCode code = ExitCode::configuration) {
  if (speaks()) std::fprintf(stderr, "longspan: %s\n", sentence.c_str());
  return {{}, code};
}

CommandLine say(const std::string& text) {
  if (!speaks()) return {};
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return {};
  std::fprintf(
      stderr, "longspan: standard output cannot be written: %s\n", errno_message().c_str());
  return {{}, ExitCode::failure};
}

// Returns the command or option with that synonym, or a similar one; a key if the command sets
// keys.
std::string meant_word(const std::string& word, const std::vector<std::string>& known) {
  for (const FieldName& entry : option_names())
    if (std::ranges::count(known, entry.key) > 0 && match(word, entry) == NameMatch::whole)
      return std::string(entry.key);
  if (std::string near = closest_match(word, known); !near.empty()) return near;
  if (std::ranges::count(known, "--set") == 0) return "";
  for (const FieldName& entry : field_names())
    if (!entry.key.empty() && entry.value.empty() && match(word, entry) >= NameMatch::whole)
      return fmt::format("--set {}=VALUE", entry.key);
  const std::string leaf = "." + word.substr(word.find_first_not_of('-'));
  for (const OptionDescription& option : configuration_reference())
    if (option.key.ends_with(leaf)) return fmt::format("--set {}=VALUE", option.key);
  return "";
}

std::string not_known(const std::string& word,
                      const std::vector<std::string>& known,
                      const std::string& command) {
  const std::string near = meant_word(word, known);
  return fmt::format("unknown option {}{}; see {} --help",
                     quote(word),
                     near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                     command);
}

// Checks the word in place of a command: the parser itself would only report it as unexpected, or
// report a missing command.
std::string validate_command(int count, char** words, const std::vector<Command>& known) {
  if (count < 2) return "missing command; see longspan --help";
  const std::string word = words[1];
  if (word.starts_with("-")) {
    const std::vector<std::string> flags = {"--help", "--version", "-h"};
    return std::ranges::count(flags, word) > 0 ? "" : not_known(word, flags, "longspan");
  }
  std::vector<std::string> names;
  for (const Command& command : known) {
    if (command.name == word) return "";
    names.push_back(command.name);
  }
  const std::string near = meant_word(word, names);
  return fmt::format("unknown command {} (choices: {}){}",
                     quote(word),
                     fmt::join(names, ", "),
                     near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
}

// Returns the first unknown option; the parser would report a missing one instead.
std::string validate_options(const CLI::App& command) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : command.remaining()) {
    if (!word.starts_with("--")) continue;
    return not_known(word.substr(0, word.find('=')), known, "longspan " + command.get_name());
  }
  return "";
}

// Returns the parser's message. It lists unexpected arguments in reverse order.
std::string message_of(const CLI::ParseError& error, const CLI::App& app) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  const std::vector<std::string> words = app.remaining(true);
  return fmt::format(
      "unexpected argument{}: {}", words.size() == 1 ? "" : "s", fmt::join(words, " "));
}

CommandLine tell(const TextAction& text, const CLI::App& program) try {
  return say(text(program));
} catch (const Error& error) {
  return mistake(error.what(), error.code());
} catch (const std::exception& error) {
  return mistake(error.what(), ExitCode::failure);
}

CommandLine read_command_line(int count, char** words) {
  CLI::App app("Train Transformers on very long sequences", "longspan");
  app.set_version_flag("--version", version_text, "versions of the program and its libraries");
  app.footer(std::string("Examples:\n"
                         "  longspan config configs/quickstart.yaml\n"
                         "  longspan COMMAND --help\n") +
             exit_codes);
  app.require_subcommand(1);
  const std::vector<Command> known = commands();
  std::vector<Action> actions;
  std::vector<TextAction> texts;
  for (const Command& command : known) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    sub->footer("Examples:\n" + command.examples);
    actions.push_back(command.bind ? command.bind(*sub) : Action());
    texts.push_back(command.bind_text ? command.bind_text(*sub) : TextAction());
  }
  if (const std::string sentence = validate_command(count, words, known); !sentence.empty()) {
    return mistake(sentence);
  }
  try {
    app.parse(count, words);
  } catch (const CLI::CallForHelp&) {
    std::string words_before;
    CLI::App* chosen = &app;
    while (!chosen->get_subcommands().empty()) {
      words_before += (words_before.empty() ? "" : " ") + chosen->get_name();
      chosen = chosen->get_subcommands().front();
    }
    // A list of commands shows one line for each.
    for (CLI::App* below : chosen->get_subcommands([](CLI::App*) { return true; }))
      below->description(std::string(summary_of(below->get_description())));
    return say(chosen->help(words_before));
  } catch (const CLI::CallForVersion& version) {
    return say(version.what());
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    if (const std::string sentence = chosen.empty() ? "" : validate_options(*chosen[0]);
        !sentence.empty())
      return mistake(sentence);
    const std::string which = chosen.empty() ? "longspan" : "longspan " + chosen[0]->get_name();
    return mistake(fmt::format("{}; see {} --help", message_of(error, app), which));
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!app.got_subcommand(known[i].name)) continue;
    if (omp_get_max_threads() > max_threads)
      return mistake(fmt::format("OMP_NUM_THREADS: expected at most {} threads, found {}",
                                 max_threads,
                                 omp_get_max_threads()));
    return texts[i] ? tell(texts[i], app) : CommandLine{std::move(actions[i])};
  }
  return mistake("missing command; see longspan --help");
}

// Does not return: the job ends on every rank.
[[noreturn]] void abandon(const Session& session, ExitCode code, const char* sentence) {
  if (session.claim_error_report()) {
    std::fflush(stdout);
    std::fprintf(stderr, "longspan: %s\n", sentence);
    session.tell(sentence);
  }
  session.abort(static_cast<int>(code));
}

int run(const Action& action) try {
  Session session;
  ExitCode code = ExitCode::failure;
  try {
    code = action(session);
  } catch (const Error& error) {
    abandon(session, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    abandon(session, ExitCode::failure, "out of memory");
  } catch (const std::exception& error) {
    abandon(session, ExitCode::failure, error.what());
  }
  return static_cast<int>(code);
} catch (const std::exception& error) {
  // Reached only if the session fails to start: the ranks are not connected, so each reports.
  std::fprintf(stderr, "longspan: %s\n", error.what());
  report_job_end(static_cast<int>(ExitCode::rank_failed));
  std::_Exit(static_cast<int>(ExitCode::rank_failed));
}

// `longspan launch`. Reports command-line errors of the ranks before any are started.
int start_ranks(int count, char** words) try {
  const LaunchCommandLine line = read_launch({words + 2, static_cast<std::size_t>(count - 2)});
  std::vector<std::string> inner = {"longspan"};
  if (line.help_requested)
    inner.insert(inner.end(), {"launch", "--help"});
  else
    inner.insert(inner.end(), line.command.begin(), line.command.end());
  std::vector<char*> inner_words;
  for (std::string& word : inner) inner_words.push_back(word.data());
  const CommandLine judged =
      read_command_line(static_cast<int>(inner_words.size()), inner_words.data());
  return judged.action ? run_on_ranks(line) : static_cast<int>(judged.code);
} catch (const Error& error) {
  return static_cast<int>(mistake(error.what(), error.code()).code);
} catch (const std::exception& error) {
  return static_cast<int>(mistake(error.what(), ExitCode::failure).code);
}

// A closed standard stream's number would be reused for the next opened file. The replacement
// cannot be read or written, like the closed stream.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0)
      ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace
}  // namespace longspan

int main(int count, char** words) {
  using namespace longspan;
  install_crash_handlers();
  occupy_closed_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails instead
  if (count > 1 && std::string_view(words[1]) == "launch") return start_ranks(count, words);
  const CommandLine line = read_command_line(count, words);
  return line.action ? run(line.action) : static_cast<int>(line.code);
}
