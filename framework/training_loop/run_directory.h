// The output directory of a run, and its state as seen by other processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoints/files.h"
#include "framework/core/config_path.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

// State of a run as seen by other processes.

// File of a run's directory that its process locks.
inline constexpr const char* lock_name = ".lock";

// Contents of the lock file: the last process that trained there.
struct RunMark {
  MeshShape layout = {};
  bool has_ended = false;  // ended by itself with any outcome; false if it was killed
  std::string host = {};   // of rank 0; empty in the file of an older version
};
// Pads to a fixed length, so that any mark replaces another in place.
std::string to_text(const RunMark& mark);
// Returns nothing if the file has no mark, as for a run of an older version.
std::optional<RunMark> run_mark(const std::filesystem::path& run) noexcept;

// Returns whether a process is training in that directory now, as far as the file system supports
// locks.
bool is_running(const std::filesystem::path& run) noexcept;
// Returns whether `is_running` is reliable. It is not on a file system without locks, as some
// network file systems are. It is not for a run on another host either, whose locks may not be
// visible here.
bool shows_locks(const std::filesystem::path& run, const RunMark& mark) noexcept;

// Returns the last step of the run's metrics file; 0 if it is missing or invalid.
std::int64_t last_logged_step(const std::filesystem::path& run) noexcept;

// Subfolder with the checkpoints of a run.
inline constexpr const char* checkpoints_name = "checkpoints";

// Creates the directory on rank 0 and holds a lock on it, so that two runs cannot write to it. The
// lock is released on destruction or when the process ends.
class RunDirectory {
 public:
  // Collective. Throws ConfigurationError on every rank if the directory or its checkpoint folder
  // cannot be created or written, or differs between ranks. Also throws if another process holds
  // the lock for five seconds.
  RunDirectory(const ConfigPath& path, const Communicator& world);
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  // Records the end of the run in the lock file if it was marked as running.
  ~RunDirectory();

  // On rank 0: records in the lock file (RunMark) that a run with that layout is training.
  void mark_running(const MeshShape& layout);
  // On rank 0: whether the previous run was killed, or its machine failed.
  bool follows_killed() const { return follows_killed_; }
  // On rank 0: removes the folders that this object created if they contain nothing else, for a run
  // that fails or stops before its first step.
  void remove_if_unused() noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / checkpoints_name; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path samples() const { return path_ / "samples.jsonl"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::filesystem::path exports() const { return path_ / "export"; }
  std::filesystem::path skipped() const { return path_ / "skipped_batches.json"; }
  std::filesystem::path log() const { return path_ / "log.txt"; }

  // On rank 0: whether the locked directory is no longer the one at this path, as it was removed,
  // moved or replaced. False on other ranks.
  bool is_lost() const;
  // Throws DataError that the directory is lost, noticed after step `step`.
  [[noreturn]] void throw_lost(std::int64_t step) const;
  // On rank 0: writes the file atomically. Throws Failure.
  void write(const std::string& name, const std::string& text) const;

 private:
  void remove_made() noexcept;

  std::filesystem::path path_;
  bool writes_;
  bool made_ = false;  // the directory
  bool made_checkpoints_ = false;
  bool is_first_ = false;  // there was no earlier run
  bool follows_killed_ = false;
  std::optional<MeshShape> marked_;
  Descriptor lock_;
};

// Returns a random ID of 16 hexadecimal digits, the same on every rank. Collective.
std::string new_run_id(const Communicator& world);

}  // namespace longspan
