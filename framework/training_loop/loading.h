// Loads weights from checkpoints and locates the checkpoint that a user names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/data/data_options.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Checkpoint scalar that holds the run's Tokenizer::to_json.
inline constexpr const char* tokenizer_scalar = "data/tokenizer";

// Prefix of the checkpoint scalars that hold what an import read next to the weights, for an
// export.
inline constexpr const char* import_prefix = "import/";
// The folder that was imported.
inline constexpr const char* import_folder_scalar = "import/folder";
// The longest sequence that its config.json allows.
inline constexpr const char* import_positions_scalar = "import/positions";

// Fills the weights from a checkpoint of any layout and either master type, converting between f64
// and f32 (f64 is rounded). Collective if parameters are sharded. Throws DataError.
void load_weights(const Checkpoint& checkpoint, const Parameters& parameters);
// Fills some of the master weights (weights_state) in the same way. Does not update compute copies.
void load_masters(const Checkpoint& checkpoint, const std::vector<StateTensor>& masters);

// Files that a path of the user resolves to.
struct RunLocation {
  std::filesystem::path configuration;                   // the YAML to read
  std::optional<std::filesystem::path> run = {};         // run directory that contains it
  std::optional<std::filesystem::path> checkpoint = {};  // directory of a step
};

// Resolves a path: a configuration, a run directory, its checkpoint folder, or the directory of one
// of its steps. Throws DataError if there is no run, or if a checkpoint has no configuration next
// to it. Throws ConfigurationError if a path with a YAML extension does not exist.
RunLocation locate_run(const std::filesystem::path& path);

struct OpenedCheckpoint {
  Checkpoint checkpoint;
  std::vector<std::string> skipped;  // a message for each newer step that fails verification
};

// Opens the named step (named_checkpoint.h), or else the newest step of the run directory that
// verifies. Returns nothing if none is named and none exists. Collective. Throws DataError if the
// named step does not exist, or for values that no run writes.
std::optional<OpenedCheckpoint> open_checkpoint(const std::optional<std::string>& named,
                                                const std::filesystem::path& run_directory,
                                                const Communicator& world,
                                                const ReadProgress& watch = {});

// Returns the tokenizer that the checkpoint was trained with, or that of the options if it has
// none.
Tokenizer tokenizer_of(const Checkpoint& checkpoint, const DataOptions& options);

// Returns the import scalars that a checkpoint retains. `all`: for the same run. Otherwise for a
// run that starts from its weights and reads the same tokens: without label names and IDs of the
// data's keys.
Scalars import_scalars(const Scalars& scalars, bool all);

}  // namespace longspan
