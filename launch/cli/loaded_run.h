// Loads a trained model for the subcommands that use one.
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

// Command-line arguments. Must outlive the action.
struct RunArguments {
  std::string path;
  std::string checkpoint;
  std::vector<std::string> settings;
};
void add_run(CLI::App& app, RunArguments& arguments);

// Axis along which the job's ranks are placed unless --set overrides it. A run's training layout
// does not constrain its use.
enum class DefaultAxis { data, tensor };

struct LoadedRun {
  std::unique_ptr<SpinControl> spinning;
  std::unique_ptr<Configuration> configuration;
  std::filesystem::path directory;  // of the run
  Checkpoint checkpoint;
  Tokenizer tokenizer;
  LabelSet labels;                  // classes or tags it was trained on, if any
  std::optional<ImageShape> image;  // images it was trained on
  std::unique_ptr<GpuCollectives> collectives;
  std::unique_ptr<Model> model;
};

// Sets the configuration's threads and time limit, and loads the named checkpoint or the newest one
// that verifies. Reports skipped checkpoints on standard error. Collective. Throws DataError, and
// ConfigurationError, also if the checkpoint contains another model.
LoadedRun load_run(const RunArguments& arguments, Session& session, DefaultAxis axis);

}  // namespace longspan
