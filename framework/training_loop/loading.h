// Loads weights from checkpoints and locates the checkpoint that a user names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/training_state.h"
#include "framework/core/config_path.h"
#include "framework/data/data_options.h"
#include "framework/data/tokenization/tokenizer.h"
#include "framework/nn/parameters.h"

namespace longspan {

// Resolves the checkpoint that a user names.

struct NamedCheckpoint {
  std::filesystem::path path;        // directory of a step
  std::vector<std::string> skipped;  // a message for each newer step that was skipped
};

// Returns the checkpoint that `name` resolves to, the same on every rank. `name` is one of: the
// directory of a step; the name or number of a step of the run in `run` ("step-000000080", "80");
// "best", the best step according to the newest step (checkpoint.best_metric); the directory of any
// run or its checkpoint folder. The last form selects the newest step that verifies and in which
// `judge` finds no problem. Collective. Throws DataError, prefixed by the location of the key, if
// there is no such step or none can be read. A step that is named is not read.
NamedCheckpoint find_checkpoint(const ConfigPath& name,
                                const std::filesystem::path& run,
                                const Communicator& world,
                                const CheckpointValidator& judge = {},
                                const ReadProgress& watch = {});

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

// Opens the named step (NamedCheckpoint), or else the newest step of the run directory that
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

// Maps the rows of one vocabulary's tables to those of another.

// A vocabulary and the number of rows that a model has for it, at least the number of IDs.
struct VocabularyTable {
  const Tokenizer& tokenizer;
  std::int64_t rows = 0;
};

// Returns, for each row of `to`, the row of `from` with the same meaning, or -1 if there is none.
// Bytes and equal tokenizers map to the same row. Characters map to the row of the same character,
// and `<unknown>` to `<unknown>`. Requires tokenizers of one type.
std::vector<std::int64_t> matching_rows(const VocabularyTable& from, const VocabularyTable& to);

// Returns 0, 1, ..., count - 1.
std::vector<std::int64_t> same_rows(std::int64_t count);

// Sets row i of the model's table to row rows[i] of `table`, or leaves it unchanged if rows[i] is
// -1. `table`: f32 or f64, on the host. `piece`: this rank's shard of the table, a box of its rows
// and columns (f32 or f64, on any device).
void gather_rows(const Tensor& table,
                 const std::vector<std::int64_t>& rows,
                 const StateTensor& piece);

}  // namespace longspan
