#include "launch/cli/evaluate.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <memory>

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
             "window length, in tokens, of an evaluation without memory, which recomputes the "
             "window at each stride. Only with run.task: language_modeling.")
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
                 "segment length: tokens of a stream per forward pass (default: data.seq_length). "
                 "Only with run.task: language_modeling.")
      ->transform(whole_number<std::int64_t>(1));
  app.add_option(
         "--batch-size",
         arguments.batch,
         "number of parallel streams, or of passages per forward pass with --needle-in-haystack "
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

}  // namespace longspan
