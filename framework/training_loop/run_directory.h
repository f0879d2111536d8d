// The output directory of a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoints/files.h"
#include "framework/core/config_path.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

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

  // On rank 0: records in the lock file (run_state.h) that a run with that layout is training.
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
