// longspan tokenize-data: fills the token cache of a configuration before training.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>
#include <vector>

#include "framework/core/format.h"
#include "framework/core/span.h"
#include "framework/data/corpus/path_pattern.h"
#include "framework/data/corpus/text_files.h"
#include "framework/data/rank_zero.h"
#include "framework/data/tokenization/token_cache.h"
#include "framework/training_loop/progress.h"
#include "framework/training_loop/run_device.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"
#include "launch/cli/configuration.h"
#include "launch/cli/saved_tokenizer.h"

namespace longspan {
namespace {

struct TokenizeDataArguments {
  ConfigurationArguments configuration;
  std::int64_t part = TokenizationOptions().part >> 20;
};

// Returns each file once, the largest first, as it takes longest.
std::vector<ConfigPath> files_to_tokenize(const DataOptions& data, const ProgressCallback& say) {
  std::vector<ConfigPath> files;
  for (const PathList* list : {&data.train, &data.validation, &data.test})
    for (const ConfigPath& file : files_of(*list, say))
      if (std::ranges::find(files, file.text(), &ConfigPath::text) == files.end())
        files.push_back(file);
  std::ranges::stable_sort(files, std::greater(), [](const ConfigPath& file) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file.text(), error);
    return error ? 0 : size;
  });
  return files;
}

std::string counts_text(std::int64_t documents, std::int64_t tokens, std::int64_t bytes) {
  return fmt::format("{}, {}, {} of text",
                     pluralize(documents, "document"),
                     pluralize(tokens, "token"),
                     pluralize(bytes, "byte"));
}

// Reports the results: a line for each file and one for the total.
class Report {
 public:
  explicit Report(const Session& session) : session_(session) {}

  void add(const PreparedFile& prepared) {
    ++files_;
    if (!prepared.made) {
      print(session_, fmt::format("{}: read in place, no token cache\n", prepared.file.text()));
      return;
    }
    const TokenizedFile& made = *prepared.made;
    const TokenFile& tokens = *made.tokens;
    documents_ += tokens.documents();
    tokens_ += tokens.tokens();
    bytes_ += tokens.bytes();
    there_ += made.existed ? 1 : 0;
    const std::int64_t left_out = tokens.end().num_skipped;
    print(
        session_,
        fmt::format(
            "{}: {}{}, {:.1f} s{}: {}\n",
            prepared.file.text(),
            counts_text(tokens.documents(), tokens.tokens(), tokens.bytes()),
            left_out > 0 ? fmt::format(", {} skipped", pluralize(left_out, "empty document")) : "",
            prepared.seconds,
            made.existed ? ", cached"
            : made.cached_bytes > 0
                ? fmt::format(", resumed after {} of the text",
                              format_bytes(static_cast<double>(made.cached_bytes)))
                : "",
            made.path.string()));
  }

  void end(double took_seconds) const {
    print(session_,
          fmt::format("{}: {} in {:.1f} s; {} cached\n",
                      pluralize(files_, "file"),
                      counts_text(documents_, tokens_, bytes_),
                      took_seconds,
                      there_));
  }

 private:
  const Session& session_;
  std::int64_t files_ = 0;
  std::int64_t there_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t bytes_ = 0;
};

// Creates the folder of the tokenizer. An active run there is unaffected.
void make_directory(const ConfigPath& path) {
  std::error_code error;
  std::filesystem::create_directories(path.text(), error);
  if (error)
    throw ConfigurationError("{}run.output_dir \"{}\" cannot be created: {}{}",
                             path.before(),
                             path.text(),
                             error.message(),
                             path.not_found_hint());
}

void tokenize_data(const RunConfig& settings,
                   const TokenizationOptions& making,
                   const Session& session) {
  const DataOptions& data = settings.data;
  const Communicator& world = session.world();
  const ProgressCallback say =
      throttled_progress([&session](const std::string& sentence) { inform(session, sentence); });
  const std::filesystem::path run = settings.run.directory.text();
  if (trains_tokenizer(data) && world.rank() == 0) make_directory(settings.run.directory);
  const Tokenizer tokenizer = prepare_tokenizer(data, run, world, say);
  // Work on a separate thread uses only its own state.
  run_on_rank_zero(world,
                   data.train,
                   0,
                   {},
                   [data, tokenizer, say, making, &session, cache = token_directory(data, run)](
                       const ProgressCallback& heard) {
                     Report report(session);
                     const Stopwatch stopwatch;
                     tokenize_files(
                         files_to_tokenize(data, say),
                         data.documents,
                         tokenizer,
                         cache,
                         [&](const ScanProgress& progress) {
                           heard(progress);
                           say(progress);
                         },
                         making,
                         [&report](const PreparedFile& prepared) { report.add(prepared); });
                     report.end(stopwatch.seconds());
                     return std::string();
                   });
}

ExitCode run_tokenize_data(const TokenizeDataArguments& arguments, Session& session) {
  const auto& [file, settings] = arguments.configuration;
  const auto configuration = configure(read_configuration(file, settings, session.world()));
  use_saved_tokenizer(*configuration, session.world());
  warn(session, configuration->table.warnings());
  if (configuration->task != "language_modeling")
    throw ConfigurationError(
        "longspan tokenize-data requires run.task: language_modeling, found {}",
        configuration->task);
  if (configuration->data.format == DataFormat::tokens)
    throw ConfigurationError(
        "longspan tokenize-data does not support data.format: tokens, which is already tokenized");
  set_threads(configuration->run.threads, session.local_size());
  const SpinControl spinning(session.local_size());
  tokenize_data(*configuration, {.part = arguments.part << 20}, session);
  return ExitCode::ok;
}

}  // namespace

Command tokenize_data_command() {
  return {
      "tokenize-data",
      "Tokenize the data of a configuration before training, on all cores",
      "  longspan tokenize-data configs/quickstart.yaml\n"
      "  longspan tokenize-data configs/quickstart.yaml --set data.tokenizer.type=sentencepiece "
      "--set data.cache_dir=tokens\n",
      [](CLI::App& app) -> Action {
        const auto arguments = std::make_shared<TokenizeDataArguments>();
        add_configuration(app, arguments->configuration);
        app.add_option("--shard-mib",
                       arguments->part,
                       "shard size of the token cache, in MiB of text; an interrupted command "
                       "resumes after the last complete shard")
            ->transform(whole_number<std::int64_t>(1, 1 << 20))
            ->capture_default_str();
        return [arguments](Session& session) { return run_tokenize_data(*arguments, session); };
      }};
}

}  // namespace longspan
