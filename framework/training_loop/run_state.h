// State of a run as seen by other processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "framework/distributed/process_mesh.h"

namespace longspan {

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

}  // namespace longspan
