#include "launch/cli/decoding_arguments.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <map>
#include <string>

#include "launch/cli/cli_validators.h"

namespace longspan {

void add_decoding(CLI::App& app, DecodingArguments& arguments) {
  constexpr std::int64_t most_beam = 1024;
  TranslateOptions& options = arguments.options;
  app.add_option("--beam", options.beam, "hypotheses of a line that go on; 1: greedy")
      ->transform(whole_number<std::int64_t>(1, most_beam))
      ->capture_default_str();
  app.add_option("--length-penalty",
                 options.alpha,
                 "the power of the length that a result's log-probability is divided by; 0: none")
      ->check(no_negative_number())
      ->capture_default_str();
  const std::map<std::string, LengthPenalty> kinds = {{"wu", LengthPenalty::wu},
                                                      {"power", LengthPenalty::power}};
  app.add_option("--length-penalty-kind",
                 options.penalty,
                 "how a length n counts: wu, (5 + n) / 6 (Wu et al. 2016), or power, n")
      ->transform(CLI::CheckedTransformer(kinds).description(""))
      ->default_str("wu");
  app.add_option("--iterations",
                 options.iterations,
                 "with model.decoder_type: non_autoregressive, how often words are said, each time "
                 "fewer of the weakest, or "
                 "with model.nat.objective: iterative all of them")
      ->transform(whole_number<std::int64_t>(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--length-beam",
                 options.length_beam,
                 "with model.decoder_type: non_autoregressive, lengths that are tried around the "
                 "predicted one")
      ->transform(whole_number<std::int64_t>(1, most_beam))
      ->capture_default_str();
  app.add_option("--longest-beyond",
                 options.max_extra_length,
                 "a result has at most so many tokens more than its line")
      ->transform(whole_number<std::int64_t>(0, 1 << 24))
      ->capture_default_str();
}

void check_unused_options(const DecodingArguments& arguments,
                          const RunConfig& settings,
                          std::string_view command) {
  const bool searches = !settings.task_kind().decoded_goals.empty();
  const TranslateOptions& given = arguments.options;
  const TranslateOptions usual;
  const bool is_usual =
      given.beam == usual.beam && given.n_best == usual.n_best && given.alpha == usual.alpha &&
      given.penalty == usual.penalty && given.max_extra_length == usual.max_extra_length &&
      given.iterations == usual.iterations && given.length_beam == usual.length_beam;
  if (searches || is_usual) return;
  throw ConfigurationError(
      "longspan {}: --beam, --n-best, --length-penalty, --length-penalty-kind, --longest-beyond, "
      "--iterations and --length-beam are for run.task: translation; this model is of {}",
      command,
      settings.task);
}

}  // namespace longspan
