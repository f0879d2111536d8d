#include "launch/cli/generate_lines.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <optional>

#include "framework/data/atomic_file.h"
#include "framework/data/corpus/line_file.h"
#include "framework/data/corpus/lines.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"

namespace longspan {

void add_lines(CLI::App& app, LineArguments& arguments) {
  app.add_option(
         "--input",
         arguments.input,
         "a file whose lines are to be translated, classified or tagged, as run.task says; with "
         "data.format: images each line names a PNG file, or an IDX file whose images get a line "
         "each; -: standard input")
      ->check(not_empty_text());
  app.add_option("--output", arguments.output, "a file for the results; -: standard output")
      ->check(not_empty_text())
      ->capture_default_str();
  add_decoding(app, arguments.decoding);
  app.add_option(
         "--n-best",
         arguments.decoding.options.n_best,
         "results of each line, at most --beam, and with model.decoder_type: non_autoregressive "
         "--length-beam; with more than 1 each is a line of its own: "
         "the number of its line, a tab, its score, a tab, the text")
      ->transform(whole_number<std::int64_t>(1, 1024))
      ->capture_default_str();
  app.add_flag("--sample",
               arguments.decoding.sample,
               "draw --n-best results by --temperature, --top-k, --top-p and --seed instead of "
               "searching for the likeliest");
}

void check_lines(const LineArguments& arguments, const RunConfig& settings) {
  if (settings.task_kind().is_policy)
    throw ConfigurationError(
        "longspan generate: a model of run.task: {} acts and writes nothing; longspan evaluate has "
        "it play episodes",
        settings.task);
  const bool has_lines = !arguments.input.empty();
  const bool wants_lines = static_cast<bool>(settings.task_kind().write);
  if (has_lines && !wants_lines)
    throw ConfigurationError(
        "longspan generate: --input is for models of other tasks; this one is of {}, {}",
        settings.task,
        settings.task_kind().generate_images ? "which makes --images"
                                             : "which goes on with --prompt or --prompt-file");
  if (!has_lines && wants_lines)
    throw ConfigurationError(
        "longspan generate: a model of run.task: {} makes something of lines; give them by --input "
        "FILE, or by --input - from standard input",
        settings.task);
  check_unused_options(arguments.decoding, settings, "generate");
  const TranslateOptions& decoding = arguments.decoding.options;
  if (!arguments.decoding.sample && decoding.n_best > decoding.beam)
    throw ConfigurationError(
        "longspan generate: --n-best is {}, but --beam {} finds at most as many results",
        decoding.n_best,
        decoding.beam);
}

std::vector<std::string> results_of_lines(std::span<const std::string> lines,
                                          const std::string& name,
                                          const TranslateOptions& decoding,
                                          const LoadedRun& run,
                                          const Session& session,
                                          const std::function<void()>& after_batch) {
  return run.configuration->task_kind().write(
      {.model = *run.model,
       .tokenizer = run.tokenizer,
       .labels = run.labels,
       .image = run.image,
       .data = run.configuration->data,
       .lines = lines,
       .decoding = decoding,
       .place =
           [&](std::size_t i) { return line_location(name, static_cast<std::int64_t>(i) + 1); },
       .say = [&](const std::string& sentence) { inform(session, sentence); },
       .after_batch = after_batch});
}

ExitCode generate_lines(const LineArguments& arguments,
                        const TranslateOptions& decoding,
                        const LoadedRun& run,
                        Session& session) {
  const std::vector<std::string> lines = read_lines(ConfigPath(arguments.input), session.world());
  // Opened before: a folder that is not there is not to be found after hours.
  std::optional<AtomicFile> file;
  if (arguments.output != "-" && session.world().rank() == 0) file.emplace(arguments.output);
  const std::string name = arguments.input == "-" ? "standard input" : arguments.input;
  const std::vector<std::string> results = results_of_lines(lines, name, decoding, run, session);
  std::string text;
  for (const std::string& result : results) {
    text += result;
    text += '\n';
  }
  if (arguments.output == "-") {
    print(session, text);
  } else if (file) {
    file->write(text);
    file->finish();
  }
  return ExitCode::ok;
}

}  // namespace longspan
