#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cmath>
#include <memory>

#include "framework/core/format.h"
#include "framework/data/corpus/text_files.h"
#include "framework/tasks/evaluation.h"
#include "framework/training_loop/progress.h"
#include "launch/cli/api.h"
#include "launch/cli/cli_validators.h"
#include "launch/cli/command.h"

namespace longspan {

namespace {

// Binds the options that select the run and its data.
void bind_text(CLI::App& app, EvaluateArguments& arguments) {
  add_run(app, arguments.run);
  auto* split =
      app.add_option("--split", arguments.split, "data split of the configuration to evaluate")
          ->check(CLI::IsMember({"validation", "test", "train"}))
          ->capture_default_str();
  auto* data = app.add_option("--data", arguments.data, "file to evaluate instead of a split")
                   ->check(not_empty_text())
                   ->excludes(split);
  app.add_option(
         "--data-target",
         arguments.data_target,
         "file of the targets of --data (run.task: translation), or of the labels of an IDX file "
         "(data.format: images). Only with --data.")
      ->check(not_empty_text())
      ->needs(data);
}

// Binds the options of tasks that read streams.
void bind_streams(CLI::App& app, EvaluateArguments& arguments) {
  auto* memory =
      app.add_option("--mem-len",
                     arguments.memory,
                     "length of the Transformer-XL memory, in tokens (default: model.mem_len). "
                     "Only with run.task: language_modeling.")
          ->transform(whole_number<std::int64_t>(0));
  auto* by_position =
      app.add_option("--loss-by-position",
                     arguments.by_position,
                     "number of parts of a segment whose losses are reported too, at most "
                     "--seq-length (default: none). Only with run.task: language_modeling.")
          ->transform(whole_number<std::int64_t>(1));
  auto* needles =
      app.add_option("--needle-in-haystack",
                     arguments.needles,
                     "number of passages per depth; each hides a sentence with a number that the "
                     "model must recall at the end of the segment. Only with run.task: "
                     "language_modeling.")
          ->transform(whole_number<std::int64_t>(1))
          ->excludes(memory)
          ->excludes(by_position);
  app.add_option("--num-depths",
                 arguments.depths,
                 "number of depths of the hidden sentence, from the start of the segment to the "
                 "question. Only with --needle-in-haystack.")
      ->transform(whole_number<std::int64_t>(1))
      ->capture_default_str()
      ->needs(needles);
  auto* recompute =
      app.add_option(
             "--sliding-window",
             arguments.recompute_context,
             "window length, in tokens, of a strided evaluation without memory, which recomputes "
             "each window. It does not change model.attention.sliding_window. Only with run.task: "
             "language_modeling.")
          ->transform(whole_number<std::int64_t>(1))
          ->excludes(memory)
          ->excludes(by_position)
          ->excludes(needles);
  app.add_option("--stride",
                 arguments.stride,
                 "stride of the window, in tokens, at most its length; only the last tokens of a "
                 "window, as many as the stride, are predicted (default: 1). Only with "
                 "--sliding-window.")
      ->transform(whole_number<std::int64_t>(1))
      ->needs(recompute);
  app.add_option("--max-tokens",
                 arguments.tokens,
                 "number of tokens to predict, rounded up to a multiple of the batch size "
                 "(default: all). Only with run.task: language_modeling.")
      ->transform(whole_number<std::int64_t>(1))
      ->excludes(needles);
  app.add_option("--seq-length",
                 arguments.segment,
                 "sequence length per forward pass, in tokens (default: data.seq_length). Only "
                 "with run.task: language_modeling.")
      ->transform(whole_number<std::int64_t>(1));
  app.add_option("--batch-size",
                 arguments.batch,
                 "number of sequences per forward pass, or of passages with --needle-in-haystack "
                 "(default: data.global_batch_size). Only with run.task: language_modeling.")
      ->transform(whole_number<std::int64_t>(1));
}

std::string json_line(const nlohmann::ordered_json& figures) {
  return figures.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Evaluation bind_evaluation(CLI::App& app) {
  const auto arguments = std::make_shared<EvaluateArguments>();
  bind_text(app, *arguments);
  add_decoding(app, arguments->decoding);
  bind_streams(app, *arguments);
  return [arguments](Session& session, const ProgressCallback& heard) {
    return evaluate_run(*arguments, session, heard);
  };
}

Command evaluate_command() {
  return {"evaluate",
          "Evaluate a trained model on a split of its data or on another file",
          "  longspan evaluate runs/quickstart\n"
          "  longspan evaluate runs/quickstart --data book.txt --mem-len 1024\n"
          "  longspan evaluate runs/quickstart --sliding-window 512 --max-tokens 100 --json\n"
          "  longspan evaluate runs/quickstart --seq-length 1024 --loss-by-position 8\n"
          "  longspan evaluate runs/quickstart --seq-length 1024 --needle-in-haystack 16\n",
          [](CLI::App& app) -> Action {
            const Evaluation measure = bind_evaluation(app);
            const auto json = std::make_shared<bool>(false);
            app.add_flag("--json", *json, "output as one JSON object");
            return [measure, json](Session& session) {
              const Evaluated measured = measure(session, {});
              print(session, *json ? json_line(measured.figures) : measured.text);
              return ExitCode::ok;
            };
          }};
}

namespace {

PathList text_file(const EvaluateArguments& arguments, const DataOptions& data) {
  if (!arguments.data.empty()) return ConfigPath(arguments.data, "--data", "");
  const PathList& file = arguments.split == "train"  ? data.train
                         : arguments.split == "test" ? data.test
                                                     : data.validation;
  if (file.empty())
    throw ConfigurationError("data.{} is not set in the config; set it, or pass --data",
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
        "--loss-by-position: expected at most {} (tokens of a segment), found {}",
        pluralize(options.segment, "part"),
        options.position_parts);
  if (data.reset_attention_mask) options.reset_attention_mask = data.piece;
  if (data.reset_attention_mask && arguments.recompute_context)
    throw ConfigurationError(
        "--sliding-window cannot be combined with data.documents.reset_attention_mask");
  if (arguments.tokens) options.tokens_per_stream = (*arguments.tokens - 1) / options.streams + 1;
  return options;
}

void check_streams(const EvaluateArguments& arguments, const LoadedRun& run, const Corpus& corpus) {
  require_pairs(corpus);
  if (!arguments.batch) return;
  if (*arguments.batch > corpus.tokens() - 1)
    throw ConfigurationError("--batch-size: expected at most {} (predicted tokens of {}), found {}",
                             pluralize(corpus.tokens() - 1, "sequence"),
                             corpus.path(),
                             *arguments.batch);
  const int ranks = run.model->parameters().mesh().data.size();
  streams_of_rank(*arguments.batch, 0, ranks, "--batch-size");
}

// Describes the settings, so that two lines can be compared.
std::string manner(const EvaluateArguments& arguments,
                   const EvaluationOptions& options,
                   const Model& model) {
  if (arguments.recompute_context && options.stride > 1)
    return fmt::format("sliding window of {}, stride {}",
                       pluralize(*arguments.recompute_context, "token"),
                       options.stride);
  if (arguments.recompute_context)
    return "sliding window of " + pluralize(*arguments.recompute_context, "token");
  const std::int64_t memory = options.memory.value_or(model.body().max_mem_len());
  return fmt::format("memory length {}, sequence length {}", memory, options.segment);
}

std::string line(const EvaluationResult& result, const std::string& file, const std::string& how) {
  const auto bits = result.bits_per_byte();
  return fmt::format(
      "{}: {}loss {:.4f} nats per token, perplexity {:.4f}; {}{} in {:.2f} s ({:.4g} s per "
      "token); {}{}{}\n",
      file,
      bits ? fmt::format("{:.4f} bits per byte; ", *bits) : "",
      result.loss(),
      result.perplexity(),
      pluralize(result.tokens, "token"),
      bits ? ", " + pluralize(result.bytes, "byte") : "",
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
                                  const LoadedRun& run,
                                  const std::string& file) {
  nlohmann::ordered_json object = {{"data", file},
                                   {"checkpoint", run.checkpoint.path().string()},
                                   {"step", run.checkpoint.info().step},
                                   {"loss", result.loss()},
                                   {"perplexity", result.perplexity()}};
  if (const auto bits = result.bits_per_byte()) object["bits_per_byte"] = *bits;
  object["num_tokens"] = result.tokens;
  if (result.bytes > 0) object["num_bytes"] = result.bytes;
  object["elapsed_seconds"] = result.seconds;
  object["batch_size"] = options.streams;
  object["seq_length"] = options.segment;
  if (result.unknown) object["unk_tokens"] = *result.unknown;
  for (const AuxiliaryMetric& watched : result.watched) {
    object[watched.name + "_mean"] = watched.sum / static_cast<double>(result.tokens);
    object[watched.name + "_max"] = watched.largest;
  }
  for (const PositionLoss& part : result.by_position)
    object["loss_by_position"].push_back(
        {{"begin", part.begin}, {"end", part.end}, {"loss", part.loss}});
  if (arguments.recompute_context) {
    object["sliding_window"] = *arguments.recompute_context;
    object["stride"] = options.stride;
  } else {
    object["mem_len"] = options.memory.value_or(run.model->body().max_mem_len());
  }
  return object;
}

// Formats the needle-retrieval results, the longest lookback first.
std::string needle_lines(const std::vector<NeedlePosition>& places,
                         const NeedleOptions& options,
                         const std::string& file) {
  std::int64_t found = 0;
  for (const NeedlePosition& place : places) found += place.found;
  std::string lines = fmt::format("{}: found {} of {}, sequence length {}\n",
                                  file,
                                  found,
                                  pluralize(options.depths * options.count, "needle"),
                                  options.segment);
  for (const NeedlePosition& place : places)
    lines += fmt::format("  distance {}: found {} of {}; loss {:.4f} nats per token\n",
                         pluralize(place.distance, "token"),
                         place.found,
                         options.count,
                         place.loss);
  return lines;
}

nlohmann::ordered_json figures_of(const std::vector<NeedlePosition>& places,
                                  const NeedleOptions& options,
                                  const LoadedRun& run,
                                  const std::string& file) {
  nlohmann::ordered_json object = {{"data", file},
                                   {"checkpoint", run.checkpoint.path().string()},
                                   {"step", run.checkpoint.info().step},
                                   {"batch_size", options.batch},
                                   {"seq_length", options.segment}};
  for (const NeedlePosition& place : places)
    object["needle_in_haystack"].push_back({{"distance", place.distance},
                                            {"found", place.found},
                                            {"of", options.count},
                                            {"loss", place.loss}});
  return object;
}

// For pairs, returns the target file of `text_file`.
ConfigPath target_file(const EvaluateArguments& arguments, const DataOptions& data) {
  if (!arguments.data.empty()) return {arguments.data_target, "--data-target", ""};
  return arguments.split == "train"  ? data.train_target
         : arguments.split == "test" ? data.test_target
                                     : data.validation_target;
}

nlohmann::ordered_json figures_of(const Measurement& measured,
                                  const LoadedRun& run,
                                  const std::string& file) {
  nlohmann::ordered_json object = {{"data", file},
                                   {"checkpoint", run.checkpoint.path().string()},
                                   {"step", run.checkpoint.info().step}};
  for (const MetricValue& figure : measured.metric_values) {
    if (figure.is_count)
      object[figure.name] = static_cast<std::int64_t>(figure.value);
    else
      object[figure.name] = figure.value;
  }
  for (const Curve& curve : measured.curves) object[curve.name + "_by_position"] = curve.values;
  return object;
}

// Calls both the progress printer and the caller's callback.
ProgressCallback combined_progress(ProgressCallback told, const ProgressCallback& heard) {
  if (!heard) return told;
  return [told = std::move(told), heard](const ScanProgress& progress) {
    told(progress);
    heard(progress);
  };
}

// Evaluates a task that does not read streams.
Evaluated evaluate_task(const EvaluateArguments& arguments,
                        const LoadedRun& run,
                        Session& session,
                        const ProgressCallback& heard) {
  const Configuration& configuration = *run.configuration;
  const bool is_of_streams = arguments.memory || arguments.recompute_context || arguments.tokens ||
                             arguments.segment || arguments.batch || arguments.by_position > 0 ||
                             arguments.needles > 0;
  if (is_of_streams)
    throw ConfigurationError(
        "longspan evaluate: --mem-len, --sliding-window, --max-tokens, --seq-length, --batch-size, "
        "--loss-by-position and --needle-in-haystack require run.task: language_modeling, found {}",
        configuration.task);
  const ConfigPath file = text_file(arguments, configuration.data);
  const auto say = [&](const std::string& sentence) { inform(session, sentence); };
  const Measurement measured = configuration.task_kind().evaluate(
      {.model = *run.model,
       .tokenizer = run.tokenizer,
       .labels = run.labels,
       .image = run.image,
       .data = configuration.data,
       .file = file,
       .target = target_file(arguments, configuration.data),
       .decoding = arguments.decoding.options,
       .listener = combined_progress(throttled_progress(say), heard),
       .say = say});
  if (!std::isfinite(measured.metric_values.front().value))
    throw DivergedError("{}: non-finite loss on {}; choose an earlier checkpoint with --checkpoint",
                        run.checkpoint.path().string(),
                        file);
  return {figures_of(measured, run, file), fmt::format("{}: {}\n", file, measured.text)};
}

}  // namespace

Evaluated evaluate_run(const EvaluateArguments& arguments,
                       Session& session,
                       const ProgressCallback& heard) {
  const LoadedRun opened = load_run(arguments.run, session, DefaultAxis::data);
  check_unused_options(arguments.decoding, *opened.configuration, "evaluate");
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
                                    combined_progress(throttled_progress(say), heard));
  constexpr double seconds_between_lines = 20;
  options.listener = combined_progress(throttled_progress(say, seconds_between_lines), heard);
  if (arguments.needles > 0) {
    const NeedleOptions needles = {.segment = options.segment,
                                   .batch = options.streams,
                                   .depths = arguments.depths,
                                   .count = arguments.needles,
                                   .listener = options.listener};
    const std::vector<NeedlePosition> places = evaluate_needles(*opened.model, corpus, needles);
    return {figures_of(places, needles, opened, file), needle_lines(places, needles, file)};
  }
  check_streams(arguments, opened, corpus);
  const EvaluationResult result =
      arguments.recompute_context
          ? evaluate_sliding_window(*opened.model, corpus, *arguments.recompute_context, options)
          : evaluate(*opened.model, corpus, options);
  if (!std::isfinite(result.nats))
    throw DivergedError(
        "{}: non-finite loss on {} ({} nats per token); choose an earlier checkpoint with "
        "--checkpoint, or train again with a smaller training.learning_rate or "
        "training.max_grad_norm",
        opened.checkpoint.path().string(),
        file,
        result.loss());
  return {
      figures_of(arguments, options, result, opened, file),
      line(result, file, manner(arguments, options, *opened.model)) + lines_by_position(result)};
}

}  // namespace longspan
