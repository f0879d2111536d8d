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

// Which run, and on what.
void bind_text(CLI::App& app, EvaluateArguments& arguments) {
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
}

// Of a task that reads streams.
void bind_streams(CLI::App& app, EvaluateArguments& arguments) {
  auto* memory =
      app.add_option("--memory",
                     arguments.memory,
                     "rows to remember, more or fewer than in training; without it model.mem_len")
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
                 "tokens of a stream read in one pass; without it data.seq_length")
      ->transform(whole_number<std::int64_t>(1));
  app.add_option(
         "--batch",
         arguments.batch,
         "streams that the text is cut into, or stretches with a needle that are read in one pass; "
         "without it data.global_batch_size")
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
