#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <optional>

#include "framework/data/atomic_file.h"
#include "framework/data/corpus/lines.h"
#include "launch/cli/api.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"

namespace longspan {

void add_lines(CLI::App& app, LineArguments& arguments) {
  app.add_option(
         "--input",
         arguments.input,
         "file of lines to translate, classify or tag, depending on run.task; -: standard input. "
         "With data.format: images, each line is the path of a PNG file, or of an IDX file with "
         "one result per image.")
      ->check(not_empty_text());
  app.add_option("--output",
                 arguments.output,
                 "file of the results; -: standard output. Only with --input.")
      ->check(not_empty_text())
      ->capture_default_str();
  add_decoding(app, arguments.decoding);
  app.add_option(
         "--n-best",
         arguments.decoding.options.n_best,
         "number of results per line, at most --beam, or --length-beam with model.decoder_type: "
         "non_autoregressive; above 1, each result is a line: line number, tab, score, tab, text. "
         "Only with --input.")
      ->transform(whole_number<std::int64_t>(1, 1024))
      ->capture_default_str();
  app.add_flag("--sample",
               arguments.decoding.sample,
               "sampling of --n-best results by --temperature, --top-k, --top-p and --seed instead "
               "of beam search. Only with --input.");
}

void check_lines(const LineArguments& arguments, const RunConfig& settings) {
  if (settings.task_kind().is_policy)
    throw ConfigurationError(
        "longspan generate does not support run.task: {}; use longspan evaluate to run episodes",
        settings.task);
  const bool has_lines = !arguments.input.empty();
  const bool needs_lines = static_cast<bool>(settings.task_kind().write);
  if (has_lines && !needs_lines)
    throw ConfigurationError(
        "longspan generate: --input does not support run.task: {}; use {}",
        settings.task,
        settings.task_kind().generate_images ? "--image-sheet" : "--prompt or --prompt-file");
  if (!has_lines && needs_lines)
    throw ConfigurationError(
        "longspan generate: run.task: {} requires --input FILE, or --input - for standard input",
        settings.task);
  check_unused_options(arguments.decoding, settings, "generate");
  const TranslateOptions& decoding = arguments.decoding.options;
  if (!arguments.decoding.sample && decoding.n_best > decoding.beam)
    throw ConfigurationError("longspan generate: --n-best: expected at most --beam {}, found {}",
                             decoding.beam,
                             decoding.n_best);
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
  // Opened first, so that a missing folder is reported before hours of work.
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
