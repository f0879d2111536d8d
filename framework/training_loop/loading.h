// Weights in and out of checkpoints, and finding the checkpoint that is meant.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "framework/data/data_options.h"
#include "framework/nn/parameters.h"

namespace longspan {

// The scalar under which a checkpoint keeps Tokenizer::to_json of its run.
inline constexpr const char* tokenizer_scalar = "data/tokenizer";

// Scalars of a checkpoint whose names begin so hold what an import read next to the weights, for an
// export.
inline constexpr const char* import_prefix = "import/";
// The folder that was imported.
inline constexpr const char* import_folder_scalar = "import/folder";
// The longest sequence that its config.json allows.
inline constexpr const char* import_positions_scalar = "import/positions";

// Fills the weights from a checkpoint of any layout and of either master type (f64 is rounded to
// f32, f32 widened). Collective where parameters share something out. Throws DataError.
void load_weights(const Checkpoint& checkpoint, const Parameters& parameters);
// Fills some of the masters (weights_state) so. Compute copies are not renewed.
void load_masters(const Checkpoint& checkpoint, const std::vector<StateTensor>& masters);

// What the user named.
struct RunLocation {
  std::filesystem::path configuration;                   // the YAML to read
  std::optional<std::filesystem::path> run = {};         // the run directory it came from
  std::optional<std::filesystem::path> checkpoint = {};  // a step's directory
};

// `path` is a configuration, a run directory, its folder of checkpoints, or the directory of one of
// its steps. Throws DataError where no run is, and for a checkpoint that no configuration
// lies with, ConfigurationError where a name that ends as YAML is not there.
RunLocation locate_run(const std::filesystem::path& path);

struct OpenedCheckpoint {
  Checkpoint checkpoint;
  std::vector<std::string> skipped;  // a sentence for each newer step that does not verify
};

// The step that is named (named_checkpoint.h), or else the newest one of the run directory that
// verifies; nothing where none is named and none is there. Collective. Throws DataError for what is
// named and not there, and for values that no run writes.
std::optional<OpenedCheckpoint> open_checkpoint(const std::optional<std::string>& named,
                                                const std::filesystem::path& run_directory,
                                                const Communicator& world,
                                                const ReadProgress& watch = {});

// The tokenizer that the checkpoint was trained with; of the options where it says nothing.
Tokenizer tokenizer_of(const Checkpoint& checkpoint, const DataOptions& options);

// What a checkpoint retains of an import. `all`: for the same run; otherwise for a run that starts
// from its weights and reads the same tokens: without names of labels and ids of the data's keys.
Scalars import_scalars(const Scalars& scalars, bool all);

}  // namespace longspan
