// longspan train: trains, resumes, stops on request.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <csignal>
#include <memory>

#include "launch/cli/api.h"
#include "launch/cli/command.h"
#include "launch/cli/configuration.h"
#include "launch/cli/saved_tokenizer.h"

namespace longspan {
namespace {

CLI::Validator steps_to_profile() {
  return {[](const std::string& text) -> std::string {
            if (profiled_steps(text)) return {};
            return fmt::format(
                "expected FIRST:LAST, integers of at least 1, as in 5:10, found \"{}\"", text);
          },
          ""};
}

Action bind(CLI::App& app) {
  const auto arguments = std::make_shared<ConfigurationArguments>();
  const auto profiled = std::make_shared<std::string>();
  add_configuration(app, *arguments);
  app.add_option("--profile-steps",
                 *profiled,
                 "range of steps to profile, both ends included; the results are a trace of all "
                 "ranks and a table in profile/ of the run directory (default: no profile)")
      ->type_name("FIRST:LAST")
      ->check(steps_to_profile());
  return [arguments, profiled](Session& session) {
    std::signal(SIGPIPE, SIG_IGN);  // the reader of the console may exit
    return train(session,
                 read_configuration(arguments->file, arguments->settings, session.world()),
                 {.profiled = profiled_steps(*profiled)});
  };
}

}  // namespace

ExitCode train(Session& session, const ConfigurationText& source, const TrainingHooks& hooks) {
  const auto configuration = configure(source);
  use_saved_tokenizer(*configuration, session.world());
  if (hooks.profiled) throw_if_error(problem_of(*hooks.profiled, configuration->training.steps));
  return run_training(
      session,
      *configuration,
      {.configuration = configuration->table.resolved(),
       .warnings = configuration->table.warnings(),
       .compare = [&](const std::string& saved) { return compare(*configuration, saved); },
       .reconfigure = reconfiguration(source)},
      hooks);
}

Command train_command() {
  return {
      .name = "train",
      .description = "Train a model, resuming from the newest checkpoint of its run directory",
      .examples =
          "  longspan train configs/quickstart.yaml\n"
          "  longspan launch -n 2 -- train configs/quickstart.yaml --set training.max_steps=2000\n"
          "  longspan launch -n 4 -- train configs/quickstart.yaml --set "
          "parallel.tensor_parallel_size=2\n"
          "  longspan train configs/quickstart.yaml --profile-steps 5:10\n",
      .bind = bind};
}

}  // namespace longspan
