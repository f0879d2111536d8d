#include "launch/evaluate.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "framework/data/text_files.h"
#include "framework/runs/reading.h"
#include "framework/tasks/evaluation.h"
#include "framework/tasks/needles.h"
#include "launch/command.h"
#include "launch/decoding_arguments.h"
#include "launch/number_check.h"
#include "launch/opened_run.h"

namespace longspan {
namespace {

struct EvaluateArguments {
  RunArguments run;
  std::string split = "validation";
  std::string data;
  std::optional<std::int64_t> memory;
  std::optional<std::int64_t> recompute_context;
  std::optional<std::int64_t> stride;
  std::optional<std::int64_t> tokens;
  std::optional<std::int64_t> segment;
  std::optional<std::int64_t> batch;
  std::int64_t by_position = 0;
  std::int64_t needles = 0;
  std::int64_t depths = 10;
  std::string data_target;  // of pairs
  DecodingArguments decoding;
};

PathList text_file(const EvaluateArguments& arguments, const DataOptions& data) {
  if (!arguments.data.empty()) return NamedPath(arguments.data, "--data", "");
  const PathList& file = arguments.split == "train"  ? data.train
                         : arguments.split == "test" ? data.test
                                                     : data.validation;
  if (file.empty())
    throw ConfigurationError("data.{} is not set in the configuration; name a text with --data",
                             arguments.split);
  return file;
}

EvaluationOptions evaluation_options(const EvaluateArguments& arguments, const DataOptions& data) {
  EvaluationOptions options = {.streams = arguments.batch.value_or(data.batch),
                               .segment = arguments.segment.value_or(data.segment),
                               .memory = arguments.memory,
                               .stride = arguments.stride.value_or(1)};
  options.position_parts = arguments.by_position;
  if (options.position_parts > options.segment)
    throw ConfigurationError(
        "--by-position: found {} parts; wanted at most {}, the tokens of a segment",
        options.position_parts,
        options.segment);
  if (data.apart) options.apart = data.piece;
  if (data.apart && arguments.recompute_context)
    throw ConfigurationError(
        "--recompute-context: windows go from one document to the next, and data.documents_apart "
        "is set");
  if (arguments.tokens) options.tokens_per_stream = (*arguments.tokens - 1) / options.streams + 1;
  return options;
}

void check_streams(const EvaluateArguments& arguments, const OpenedRun& run, const Corpus& corpus) {
  require_pairs(corpus);
  if (!arguments.batch) return;
  if (*arguments.batch > corpus.tokens() - 1)
    throw ConfigurationError(
        "--batch: found {} streams; wanted at most {}, the tokens of {} that can be predicted",
        *arguments.batch,
        corpus.tokens() - 1,
        corpus.path());
  const int ranks = run.model->parameters().mesh().data.size();
  streams_of_rank(*arguments.batch, 0, ranks, "--batch");
}

// Says how, so that two lines can be compared.
std::string manner(const EvaluateArguments& arguments,
                   const EvaluationOptions& options,
                   const Model& model) {
  if (arguments.recompute_context && options.stride > 1)
    return fmt::format("a window of {} computed anew every {} tokens",
                       *arguments.recompute_context,
                       options.stride);
  if (arguments.recompute_context)
    return fmt::format("a window of {} computed anew for each token", *arguments.recompute_context);
  const std::int64_t memory = options.memory.value_or(model.body().longest_memory());
  return fmt::format("memory {}, segments of {}", memory, options.segment);
}

std::string line(const EvaluationResult& result, const std::string& file, const std::string& how) {
  const auto bits = result.bits_per_byte();
  return fmt::format(
      "{}: {}loss {:.4f} nats a token, perplexity {:.4f}; {} tokens{} in {:.2f} s ({:.4g} s a "
      "token); {}{}{}\n",
      file,
      bits ? fmt::format("{:.4f} bits per byte; ", *bits) : "",
      result.loss(),
      result.perplexity(),
      result.tokens,
      bits ? fmt::format(", {} bytes", result.bytes) : "",
      result.seconds,
      result.seconds / static_cast<double>(result.tokens),
      how,
      watched_text(result),
      unknown_text(result));
}

std::string lines_by_position(const EvaluationResult& result) {
  std::string lines;
  for (const PositionLoss& part : result.by_position)
    lines +=
        fmt::format("  positions {} to {}: loss {:.4f}\n", part.begin, part.end - 1, part.loss);
  return lines;
}

nlohmann::ordered_json figures_of(const EvaluateArguments& arguments,
                                  const EvaluationOptions& options,
                                  const EvaluationResult& result,
                                  const OpenedRun& run,
                                  const std::string& file) {
  nlohmann::ordered_json object = {{"data", file},
                                   {"checkpoint", run.checkpoint.path().string()},
                                   {"step", run.checkpoint.info().step},
                                   {"loss", result.loss()},
                                   {"perplexity", result.perplexity()}};
  if (const auto bits = result.bits_per_byte()) object["bits_per_byte"] = *bits;
  object["tokens"] = result.tokens;
  if (result.bytes > 0) object["bytes"] = result.bytes;
  object["seconds"] = result.seconds;
  object["batch"] = options.streams;
  object["segment"] = options.segment;
  if (result.unknown) object["unknown"] = *result.unknown;
  for (const Watched& watched : result.watched) {
    object[watched.name + "_mean"] = watched.sum / static_cast<double>(result.tokens);
    object[watched.name + "_largest"] = watched.largest;
  }
  for (const PositionLoss& part : result.by_position)
    object["by_position"].push_back(
        {{"begin", part.begin}, {"end", part.end}, {"loss", part.loss}});
  if (arguments.recompute_context) {
    object["recompute_context"] = *arguments.recompute_context;
    object["stride"] = options.stride;
  } else {
    object["memory"] = options.memory.value_or(run.model->body().longest_memory());
  }
  return object;
}

// What the model found of needles in a text, from the farthest on.
std::string needle_lines(const std::vector<NeedlePlace>& places,
                         const NeedleOptions& options,
                         const std::string& file) {
  std::int64_t found = 0;
  for (const NeedlePlace& place : places) found += place.found;
  std::string lines = fmt::format("{}: {} of {} needles found in segments of {}\n",
                                  file,
                                  found,
                                  options.depths * options.count,
                                  options.segment);
  for (const NeedlePlace& place : places)
    lines +=
        fmt::format("  {} tokens before the answer: {} of {} found; loss {:.4f} nats a token\n",
                    place.distance,
                    place.found,
                    options.count,
                    place.loss);
  return lines;
}

nlohmann::ordered_json figures_of(const std::vector<NeedlePlace>& places,
                                  const NeedleOptions& options,
                                  const OpenedRun& run,
                                  const std::string& file) {
  nlohmann::ordered_json object = {{"data", file},
                                   {"checkpoint", run.checkpoint.path().string()},
                                   {"step", run.checkpoint.info().step},
                                   {"batch", options.batch},
                                   {"segment", options.segment}};
  for (const NeedlePlace& place : places)
    object["needles"].push_back({{"distance", place.distance},
                                 {"found", place.found},
                                 {"of", options.count},
                                 {"loss", place.loss}});
  return object;
}

// Of pairs the other side of `text_file`.
NamedPath target_file(const EvaluateArguments& arguments, const DataOptions& data) {
  if (!arguments.data.empty()) return {arguments.data_target, "--data-target", ""};
  return arguments.split == "train"  ? data.train_target
         : arguments.split == "test" ? data.test_target
                                     : data.validation_target;
}

nlohmann::ordered_json figures_of(const Measurement& measured,
                                  const OpenedRun& run,
                                  const std::string& file) {
  nlohmann::ordered_json object = {{"data", file},
                                   {"checkpoint", run.checkpoint.path().string()},
                                   {"step", run.checkpoint.info().step}};
  for (const Figure& figure : measured.figures) {
    if (figure.is_count)
      object[figure.name] = static_cast<std::int64_t>(figure.value);
    else
      object[figure.name] = figure.value;
  }
  for (const Curve& curve : measured.curves) object[curve.name + "_by_position"] = curve.values;
  return object;
}

// Who listens beside the lines that say so.
ScanListener and_heard(ScanListener told, const ScanListener& heard) {
  if (!heard) return told;
  return [told = std::move(told), heard](const ScanProgress& progress) {
    told(progress);
    heard(progress);
  };
}

// Of a task that reads no streams.
Evaluated evaluate_task(const EvaluateArguments& arguments,
                        const OpenedRun& run,
                        Session& session,
                        const ScanListener& heard) {
  const Configuration& configuration = *run.configuration;
  const bool is_of_streams = arguments.memory || arguments.recompute_context || arguments.tokens ||
                             arguments.segment || arguments.batch || arguments.by_position > 0 ||
                             arguments.needles > 0;
  if (is_of_streams)
    throw ConfigurationError(
        "longspan evaluate: --memory, --recompute-context, --tokens, --segment, --batch, "
        "--by-position and --needles are for run.task: language_model; this model is of {}",
        configuration.task);
  const NamedPath file = text_file(arguments, configuration.data);
  const auto say = [&](const std::string& sentence) { inform(session, sentence); };
  const Measurement measured =
      configuration.task_kind().evaluate({.model = *run.model,
                                          .tokenizer = run.tokenizer,
                                          .labels = run.labels,
                                          .image = run.image,
                                          .data = configuration.data,
                                          .file = file,
                                          .target = target_file(arguments, configuration.data),
                                          .decoding = arguments.decoding.options,
                                          .listener = and_heard(say_reading(say), heard),
                                          .say = say});
  if (!std::isfinite(measured.figures.front().value))
    throw DivergedError(
        "{}: its weights give no finite loss on {}; use an earlier checkpoint with "
        "--checkpoint",
        run.checkpoint.path().string(),
        file);
  return {figures_of(measured, run, file), fmt::format("{}: {}\n", file, measured.text)};
}

Evaluated run(const EvaluateArguments& arguments, Session& session, const ScanListener& heard) {
  const OpenedRun opened = open_run(arguments.run, session, DefaultAxis::data);
  refuse_unused(arguments.decoding, *opened.configuration, "evaluate");
  if (opened.configuration->task_kind().evaluate)
    return evaluate_task(arguments, opened, session, heard);
  const DataOptions& data = opened.configuration->data;
  const PathList file = text_file(arguments, data);
  EvaluationOptions options = evaluation_options(arguments, data);
  const auto say = [&](const std::string& sentence) { inform(session, sentence); };
  const Corpus corpus = open_corpus(file,
                                    data,
                                    opened.tokenizer,
                                    opened.directory,
                                    session.world(),
                                    and_heard(say_reading(say), heard));
  constexpr double seconds_between_lines = 20;
  options.listener = and_heard(say_reading(say, seconds_between_lines), heard);
  if (arguments.needles > 0) {
    const NeedleOptions needles = {.segment = options.segment,
                                   .batch = options.streams,
                                   .depths = arguments.depths,
                                   .count = arguments.needles,
                                   .listener = options.listener};
    const std::vector<NeedlePlace> places = find_needles(*opened.model, corpus, needles);
    return {figures_of(places, needles, opened, file), needle_lines(places, needles, file)};
  }
  check_streams(arguments, opened, corpus);
  const EvaluationResult result =
      arguments.recompute_context
          ? evaluate_recomputing(*opened.model, corpus, *arguments.recompute_context, options)
          : evaluate(*opened.model, corpus, options);
  if (!std::isfinite(result.nats))
    throw DivergedError(
        "{}: its weights give no finite loss on {}: found {} nats a token; use an earlier "
        "checkpoint "
        "with --checkpoint, or train again with a smaller training.learning_rate or "
        "training.clip_norm",
        opened.checkpoint.path().string(),
        file,
        result.loss());
  return {
      figures_of(arguments, options, result, opened, file),
      line(result, file, manner(arguments, options, *opened.model)) + lines_by_position(result)};
}

void bind_evaluate(CLI::App& app, EvaluateArguments& arguments) {
  add_run(app, arguments.run);
  auto* split = app.add_option("--split", arguments.split, "the text of the configuration to use")
                    ->check(CLI::IsMember({"validation", "test", "train"}))
                    ->capture_default_str();
  auto* data = app.add_option("--data", arguments.data, "another text file")
                   ->check(not_empty_text())
                   ->excludes(split);
  app.add_option(
         "--data-target",
         arguments.data_target,
         "with --data and run.task: translation, the file of the targets; with data.format: "
         "images, of the labels of an IDX file")
      ->check(not_empty_text())
      ->needs(data);
  add_decoding(app, arguments.decoding);
  auto* memory =
      app.add_option("--memory",
                     arguments.memory,
                     "rows to remember, more or fewer than in training; without it model.memory")
          ->transform(whole_number<std::int64_t>(0));
  auto* by_position =
      app.add_option("--by-position",
                     arguments.by_position,
                     "the loss of each of so many parts of a segment too: what more context gives")
          ->transform(whole_number<std::int64_t>(1));
  auto* needles =
      app.add_option("--needles",
                     arguments.needles,
                     "hide a sentence that says a number in so many stretches of the text, at each "
                     "of --depths places, and ask for the number at the end of the segment")
          ->transform(whole_number<std::int64_t>(1))
          ->excludes(memory)
          ->excludes(by_position);
  app.add_option("--depths",
                 arguments.depths,
                 "with --needles, the places of the sentence, from the beginning of the segment to "
                 "the question")
      ->transform(whole_number<std::int64_t>(1))
      ->capture_default_str()
      ->needs(needles);
  auto* recompute =
      app.add_option(
             "--recompute-context",
             arguments.recompute_context,
             "evaluate as a model without memory must: compute a window of so many tokens anew "
             "for each token")
          ->transform(whole_number<std::int64_t>(1))
          ->excludes(memory)
          ->excludes(by_position)
          ->excludes(needles);
  app.add_option("--stride",
                 arguments.stride,
                 "with --recompute-context, move the window on by so many tokens, the last so many "
                 "of which count: as much faster; without it 1")
      ->transform(whole_number<std::int64_t>(1))
      ->needs(recompute);
  app.add_option("--tokens",
                 arguments.tokens,
                 "predict only so many tokens, rounded up to as many in each stream of the batch")
      ->transform(whole_number<std::int64_t>(1))
      ->excludes(needles);
  app.add_option("--segment",
                 arguments.segment,
                 "tokens of a stream read in one pass; without it data.segment")
      ->transform(whole_number<std::int64_t>(1));
  app.add_option(
         "--batch",
         arguments.batch,
         "streams that the text is cut into, or stretches with a needle that are read in one pass; "
         "without it data.batch")
      ->transform(whole_number<std::int64_t>(1));
}

std::string json_line(const nlohmann::ordered_json& figures) {
  return figures.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Evaluation bind_evaluation(CLI::App& app) {
  const auto arguments = std::make_shared<EvaluateArguments>();
  bind_evaluate(app, *arguments);
  return [arguments](Session& session, const ScanListener& heard) {
    return run(*arguments, session, heard);
  };
}

Command evaluate_command() {
  return {"evaluate",
          "Measure how well a trained model predicts a text",
          "  longspan evaluate runs/quickstart\n"
          "  longspan evaluate runs/quickstart --data book.txt --memory 1024\n"
          "  longspan evaluate runs/quickstart --recompute-context 512 --tokens 100 --json\n"
          "  longspan evaluate runs/quickstart --segment 1024 --by-position 8\n"
          "  longspan evaluate runs/quickstart --segment 1024 --needles 16\n",
          [](CLI::App& app) -> Action {
            const Evaluation measure = bind_evaluation(app);
            const auto json = std::make_shared<bool>(false);
            app.add_flag("--json", *json, "print one JSON object");
            return [measure, json](Session& session) {
              const Evaluated measured = measure(session, {});
              print(session, *json ? json_line(measured.figures) : measured.text);
              return ExitCode::ok;
            };
          }};
}

}  // namespace longspan
