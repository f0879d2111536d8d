// Loads a trained model for the subcommands that use one.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/distributed/session.h"
#include "framework/training_loop/loading.h"
#include "framework/training_loop/run_device.h"
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

// Returns the step directories at `path`, oldest first. These are `path` itself, those in it, or
// those in its folder checkpoints/ if it is a run's directory. Throws DataError if there are none,
// with the progress of the run if it is one.
std::vector<std::filesystem::path> checkpoints_at(const std::filesystem::path& path);

// Returns a message, starting with the run's directory, that it has saved nothing yet. It includes
// whether the run is training, its progress, and when it saves or how to start it, as far as its
// files show.
std::string no_checkpoint_message(const std::filesystem::path& run);

}  // namespace longspan
