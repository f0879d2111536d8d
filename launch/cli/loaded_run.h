// A trained model, found and loaded for the subcommands that use one.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/distributed/session.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/threads.h"
#include "launch/cli/configuration.h"

namespace CLI {
class App;
}

namespace longspan {

// What the command line says. Keep it alive with the action.
struct RunArguments {
  std::string path;
  std::string checkpoint;
  std::vector<std::string> settings;
};
void add_run(CLI::App& app, RunArguments& arguments);

// The axis that the ranks of the job lie along unless --set says otherwise: how a run was trained
// does not bind those who use it.
enum class DefaultAxis { data, tensor };

struct LoadedRun {
  std::unique_ptr<SpinControl> spinning;
  std::unique_ptr<Configuration> configuration;
  std::filesystem::path directory;  // the run's
  Checkpoint checkpoint;
  Tokenizer tokenizer;
  LabelSet labels;                  // of classes or tags, where it was trained on any
  std::optional<ImageShape> image;  // of the images that it was trained on
  std::unique_ptr<GpuCollectives> collectives;
  std::unique_ptr<Model> model;
};

// Collective. Sets the threads and the time limit of the configuration and loads the newest
// checkpoint that verifies, or the one that is named; says on standard error which were passed
// over. Throws DataError, and ConfigurationError, also where the checkpoint was made with another
// model.
LoadedRun load_run(const RunArguments& arguments, Session& session, DefaultAxis axis);

}  // namespace longspan
