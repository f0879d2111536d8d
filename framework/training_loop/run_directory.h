// The directory that a run writes to.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoints/files.h"
#include "framework/core/config_path.h"
#include "framework/distributed/process_mesh.h"

namespace longspan {

// The folder of a run that has its steps.
inline constexpr const char* checkpoints_name = "checkpoints";

// Made by rank 0, which holds a lock on it: two runs cannot write to one directory. The lock goes
// with it, or with the process.
class RunDirectory {
 public:
  // Collective. Throws ConfigurationError on every rank when this directory or that of checkpoints
  // cannot be made or written, is another one for some rank, or is held by another process for five
  // seconds.
  RunDirectory(const ConfigPath& path, const Communicator& world);
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  // Writes that the run has ended, where it was marked.
  ~RunDirectory();

  // On rank 0: writes into the lock file (run_state.h) that a run of that layout trains.
  void mark_running(const MeshShape& layout);
  // On rank 0: whether the run before this one was killed, or its machine lost.
  bool follows_killed() const { return follows_killed_; }
  // On rank 0: removes what this object made, where nothing else is there: of a run that fails
  // or is stopped before it begins.
  void remove_if_unused() noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / checkpoints_name; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path samples() const { return path_ / "samples.jsonl"; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }
  std::filesystem::path exports() const { return path_ / "export"; }
  std::filesystem::path skipped() const { return path_ / "skipped.json"; }
  std::filesystem::path log() const { return path_ / "log.txt"; }

  // On rank 0: whether the directory that it locked is no longer the one at this path: it was
  // removed, moved or replaced. False elsewhere.
  bool is_lost() const;
  // Throws DataError: where it is lost, as seen after a step.
  [[noreturn]] void refuse_lost(std::int64_t step) const;
  // On rank 0: writes the file whole or not at all. Throws Failure.
  void write(const std::string& name, const std::string& text) const;

 private:
  void remove_made() noexcept;

  std::filesystem::path path_;
  bool writes_;
  bool made_ = false;  // the directory
  bool made_checkpoints_ = false;
  bool is_first_ = false;  // no run was there before
  bool follows_killed_ = false;
  std::optional<MeshShape> marked_;
  Descriptor lock_;
};

// Random, the same on every rank: 16 hexadecimal digits.
std::string new_run_id(const Communicator& world);

}  // namespace longspan
