// Checkpoints: saved transactionally, loaded on any layout, and verified by hashes. manifest.h and
// rank_file.h describe the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "checkpoints/files.h"
#include "checkpoints/training_state.h"
#include "framework/core/error.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

// Metadata of the run that saved a checkpoint.
struct CheckpointInfo {
  std::string run_id;         // of the run that saves; may be empty
  std::int64_t step = 0;      // 0 .. 999,999,999
  MeshShape layout;           // of the ranks that saved
  std::string configuration;  // the resolved configuration; may be empty
  std::int64_t saved_at = 0;  // Unix time; 0: set by the save, or unknown
};

// A failed save: every rank throws it with the same message.
class SaveError : public Failure {
  using Failure::Failure;
};

// A save in three phases, so that the middle one can overlap with training.
class CheckpointSave {
 public:
  // Removes leftovers of killed runs from `directory` and creates a temporary directory in it.
  // Creates `directory` if missing, but not its parent. Throws an equal SaveError on every rank.
  // Collective.
  CheckpointSave(const std::filesystem::path& directory,
                 const CheckpointInfo& info,
                 const Communicator& world);
  CheckpointSave(CheckpointSave&&) noexcept;
  CheckpointSave& operator=(CheckpointSave&&) noexcept;
  // Without a commit, rank 0 removes the temporary directory.
  ~CheckpointSave();

  // Writes the state owned by this rank, closes and reopens the file, and compares its content with
  // the state. Not collective; may run on another thread. `commit` reports errors and a requested
  // stop.
  void write(const TrainingState& state, const std::stop_token& stop = {}) noexcept;

  // Checks that all ranks have written and that every element is saved exactly once. Rank 0 then
  // writes the manifest and the view, and renames the directory to the step's name, replacing an
  // equal step. Returns its path. If any rank failed, throws an equal SaveError on every rank; the
  // step is removed and earlier steps are unchanged. Only if the final sync of `directory` fails,
  // the step may remain. Collective.
  std::filesystem::path commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Runs the three phases of CheckpointSave. Returns the path of the step. Collective.
std::filesystem::path save_checkpoint(const std::filesystem::path& directory,
                                      const CheckpointInfo& info,
                                      const TrainingState& state,
                                      const Communicator& world);

// Returns "step-000000500".
std::string step_name(std::int64_t step);
// Returns the steps in a checkpoint directory, oldest first, without verification. Empty for a
// missing directory. Throws DataError for an unreadable one.
std::vector<std::int64_t> steps_in(const std::filesystem::path& directory);

// Removes the oldest steps before `last_good`, so that at most `keep` (at least 1) remain up to and
// including it, in addition to `best`. `last_good` and later steps are never removed. Call it on
// one rank after a save. Steps that cannot be removed remain. Throws DataError as steps_in, and
// Failure when the renames cannot be synced.
void remove_old_checkpoints(const std::filesystem::path& directory,
                            std::int64_t last_good,
                            int keep,
                            std::optional<std::int64_t> best = {});

// A global tensor of a checkpoint.
struct CheckpointTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int pieces = 0;

  std::int64_t bytes() const {
    return shape.elements() * static_cast<std::int64_t>(size_of(dtype));
  }
};

// One saved step, open for reading. A value: copies share the open checkpoint.
class Checkpoint {
 public:
  // Opens the directory of a step. Reads the manifest and checks its hash, its validity and the
  // size of every file. Throws DataError. `watch` receives the progress of later file checks, and
  // may abort them by throwing. Not collective.
  static Checkpoint open(const std::filesystem::path& path, ReadProgress watch = {});

  const std::filesystem::path& path() const;
  const CheckpointInfo& info() const;
  const Scalars& scalars() const;
  // Tensors, sorted by name.
  const std::vector<CheckpointTensor>& tensors() const;
  bool has(const std::string& name) const;
  // Throw DataError when the tensor does not exist.
  const Shape& shape_of(const std::string& name) const;
  DType dtype_of(const std::string& name) const;
  // Total bytes of all files.
  std::int64_t file_bytes() const;

  // Fills this rank's box from all pieces that overlap it, for any number of saving ranks. Verifies
  // the hashes of each file and piece. Throws DataError, which names the tensor, for a missing
  // tensor, a different dtype or global shape, or corruption. The elements are unspecified then.
  // Not collective.
  void read(const StateTensor& tensor) const;
  // Fills all tensors and replaces the scalars. Opens each file once.
  void read(TrainingState& state) const;
  // Fills these tensors. Opens each file once.
  void read(std::span<const StateTensor> tensors) const;

 private:
  struct State;
  explicit Checkpoint(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// An error found in a checkpoint.
struct CheckpointProblem {
  std::string message;
  // False for content that Longspan never reads: the view, unexpected files.
  bool prevents_reading = true;
};

// Validates the values of a checkpoint. Returns error messages.
using CheckpointValidator = std::function<std::vector<std::string>(const Checkpoint& checkpoint)>;

// Verifies every byte of a step directory: the manifest, each file's hash, each piece's hash as
// read by HDF5, missing and unexpected content. Then calls `judge`. The files are divided over the
// ranks. Returns an equal list on every rank, empty for a valid checkpoint. Does not throw for an
// invalid checkpoint. `watch` receives this rank's progress; an Error with ExitCode::stopped thrown
// by it is rethrown. Collective.
std::vector<CheckpointProblem> verify_checkpoint(const std::filesystem::path& path,
                                                 const Communicator& world = {},
                                                 const CheckpointValidator& judge = {},
                                                 const ReadProgress& watch = {});

struct LatestCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
};

struct CheckpointSearch {
  std::optional<LatestCheckpoint> found;
  // Log messages for newer steps that were skipped, newest first. Messages for steps that were
  // moved aside and not restored come before them.
  std::vector<std::string> skipped;
  bool rolls_back = false;  // a newer step was skipped
};

// Returns the newest step of the directory that verifies, equal on every rank. Empty if there is
// none or no such directory. Removes leftovers of killed runs. Throws an equal DataError on every
// rank when the directory is unreadable. Collective.
CheckpointSearch latest_valid_checkpoint(const std::filesystem::path& directory,
                                         const Communicator& world = {},
                                         const CheckpointValidator& judge = {},
                                         const ReadProgress& watch = {});

}  // namespace longspan
