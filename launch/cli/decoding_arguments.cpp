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
  constexpr std::int64_t max_beam = 1024;
  TranslateOptions& options = arguments.options;
  app.add_option(
         "--beam", options.beam, "beam size; 1: greedy search. Only with run.task: translation.")
      ->transform(whole_number<std::int64_t>(1, max_beam))
      ->capture_default_str();
  app.add_option("--length-penalty",
                 options.alpha,
                 "exponent of the length penalty that divides the log-probability of a result; 0: "
                 "no penalty. Only with run.task: translation.")
      ->check(no_negative_number())
      ->capture_default_str();
  const std::map<std::string, LengthPenalty> kinds = {{"wu", LengthPenalty::wu},
                                                      {"power", LengthPenalty::power}};
  app.add_option("--length-penalty-type",
                 options.penalty,
                 "base of the length penalty for n tokens: wu, (5 + n) / 6 (Wu et al. 2016), or "
                 "power, n. Only with run.task: translation.")
      ->transform(CLI::CheckedTransformer(kinds).description(""))
      ->default_str("wu");
  app.add_option("--max-iterations",
                 options.iterations,
                 "number of decoding iterations; each predicts the least probable tokens again, "
                 "fewer every time, or all tokens with model.nat.objective: iterative. Only with "
                 "model.decoder_type: non_autoregressive.")
      ->transform(whole_number<std::int64_t>(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--length-beam",
                 options.length_beam,
                 "number of candidate target lengths around the predicted one. Only with "
                 "model.decoder_type: non_autoregressive.")
      ->transform(whole_number<std::int64_t>(1, max_beam))
      ->capture_default_str();
  app.add_option("--max-extra-length",
                 options.max_extra_length,
                 "maximum length of a result beyond that of its source line, in tokens. Only with "
                 "run.task: translation.")
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
      "longspan {}: --beam, --n-best, --length-penalty, --length-penalty-type, --max-extra-length, "
      "--max-iterations and --length-beam require run.task: translation, found {}",
      command,
      settings.task);
}

}  // namespace longspan
