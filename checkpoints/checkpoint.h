// Checkpoints: saved as a transaction, read on any layout, never silently wrong. The format is
// described in manifest.h and rank_file.h.
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

// What a checkpoint says about its run.
struct CheckpointInfo {
  std::string run_id;         // of the run that saves it; may be empty
  std::int64_t step = 0;      // 0 .. 999,999,999
  MeshShape layout;           // of the ranks that saved it
  std::string configuration;  // the resolved configuration as text, or nothing
  std::int64_t saved_at = 0;  // seconds since 1970, in UTC; 0: a save sets it, or it is not known
};

// A checkpoint that was not saved: thrown on every rank, with the same message.
class SaveError : public Failure {
  using Failure::Failure;
};

// One save, in three parts so that the middle one can run beside the training.
class CheckpointSave {
 public:
  // Collective. Removes what killed runs left behind in `directory` (made, in its parent, when it is
  // not there) and agrees on a temporary directory in it. Throws SaveError, the same on every rank.
  CheckpointSave(const std::filesystem::path& directory,
                 const CheckpointInfo& info,
                 const Communicator& world);
  CheckpointSave(CheckpointSave&&) noexcept;
  CheckpointSave& operator=(CheckpointSave&&) noexcept;
  // Without a commit, rank 0 removes the temporary directory.
  ~CheckpointSave();

  // Not collective, may run on another thread: writes what this rank owns, closes, opens again and
  // compares what is in the file with what was to be written. What goes wrong is kept for `commit`,
  // and so is that it was asked to stop.
  void write(const TrainingState& state, const std::stop_token& stop = {}) noexcept;

  // Collective. All ranks agree that all have written and that every element is there once; then
  // rank 0 writes the manifest and the view and the step appears under its name, replacing one of
  // the same step. Returns its path. Throws SaveError, the same on every rank, when any rank
  // failed: nothing of the step is left then and the earlier steps are as they were.
  std::filesystem::path commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Collective: the three parts of CheckpointSave one after another. Returns the path of the step.
std::filesystem::path save_checkpoint(const std::filesystem::path& directory,
                                      const CheckpointInfo& info,
                                      const TrainingState& state,
                                      const Communicator& world);

// "step-000000500".
std::string step_name(std::int64_t step);
// The steps in a directory of checkpoints, oldest first, whether they verify or not. Empty when
// there is no such directory. Throws DataError when there is one that cannot be read.
std::vector<std::int64_t> steps_in(const std::filesystem::path& directory);

// Removes the oldest steps before `last_good` so that at most `keep` (at least 1) remain up to and
// with it, beside `best` where there is one. `last_good` itself and the steps after it are never
// touched. Call it on one rank, after a save. Steps that cannot be removed are left. Throws
// DataError as steps_in does, and Failure when their new names cannot be brought to the disk.
void remove_old_checkpoints(const std::filesystem::path& directory,
                            std::int64_t last_good,
                            int keep,
                            std::optional<std::int64_t> best = {});

// A tensor of a checkpoint, as a whole.
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
  // `path` is the directory of the step. Not collective. Reads the manifest, checks its hash, that
  // what it says can be, and that every file is there with the right size. Throws DataError.
  // `watch` is told of what is read later to check files, and may end that by throwing.
  static Checkpoint open(const std::filesystem::path& path, ReadProgress watch = {});

  const std::filesystem::path& path() const;
  const CheckpointInfo& info() const;
  const Scalars& scalars() const;
  // In the order of their names.
  const std::vector<CheckpointTensor>& tensors() const;
  bool has(const std::string& name) const;
  // Throw DataError when there is no such tensor.
  const Shape& shape_of(const std::string& name) const;
  DType dtype_of(const std::string& name) const;
  // Bytes of all files.
  std::int64_t file_bytes() const;

  // Fills this rank's box from whatever pieces overlap it, however many ranks wrote them. Not
  // collective. Before a value counts, its file's hash and its piece's hash have been checked.
  // Throws DataError that names the tensor when it is not there, its dtype or global shape differ,
  // or anything is damaged; the elements are unspecified then.
  void read(const StateTensor& tensor) const;
  // Fills all tensors: faster than one by one, each file is opened once. Replaces the scalars.
  void read(TrainingState& state) const;
  // Fills these tensors, each file opened once.
  void read(std::span<const StateTensor> tensors) const;

 private:
  struct State;
  explicit Checkpoint(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// One thing that is wrong with a checkpoint.
struct CheckpointProblem {
  std::string message;
  // False for what Longspan never reads: the view, files that do not belong there.
  bool prevents_reading = true;
};

// What someone who knows what the values of a checkpoint mean finds wrong with them, a sentence
// each.
using CheckpointValidator = std::function<std::vector<std::string>(const Checkpoint& checkpoint)>;

// Collective. Checks every byte of the step directory: the manifest, each file's hash, each piece's
// hash as HDF5 reads it, that nothing is missing and nothing is there that does not belong; then
// what `judge` says. The ranks share the files out. The same list on every rank; empty when all is
// well. Does not throw for what is wrong with the checkpoint. `watch` is told of what this rank
// reads; an Error with ExitCode::stopped that it throws is passed on.
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
  // For the log: a sentence for each newer step that was passed over, newest first, after those of
  // steps, newer or older, that were moved aside and could not be put back.
  std::vector<std::string> skipped;
  bool goes_back = false;  // a newer step than the one found was passed over
};

// Collective. The newest step of the directory that verifies, the same on every rank; nothing when
// there is none or no such directory. Also removes what killed runs left behind. Throws DataError,
// the same on every rank, when the directory cannot be read.
CheckpointSearch latest_valid_checkpoint(const std::filesystem::path& directory,
                                         const Communicator& world = {},
                                         const CheckpointValidator& judge = {},
                                         const ReadProgress& watch = {});

}  // namespace longspan
