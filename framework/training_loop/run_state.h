// What can be seen of a run from outside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "framework/distributed/process_mesh.h"

namespace longspan {

// The file of a run's directory that its process holds a lock on.
inline constexpr const char* lock_name = ".lock";

// What the lock file says of the last process that trained there.
struct RunMark {
  MeshShape layout = {};
  bool has_ended = false;  // by itself, whatever came of it: false of one that was killed
  std::string host = {};   // of rank 0; empty in the mark of an older version
};
// Padded: any mark replaces another in place.
std::string to_text(const RunMark& mark);
// Nothing where the file has none, as of a run of an older version.
std::optional<RunMark> run_mark(const std::filesystem::path& run) noexcept;

// Whether a process trains into that directory now, as far as the file system tells of locks.
bool is_running(const std::filesystem::path& run) noexcept;
// Whether `is_running` can tell: false where the file system has no locks, as some network file
// systems, and for a run on another host, whose locks may not reach this one.
bool shows_locks(const std::filesystem::path& run, const RunMark& mark) noexcept;

// The last step of its file of metrics; 0 where there is none, or it is no such file.
std::int64_t last_logged_step(const std::filesystem::path& run) noexcept;

}  // namespace longspan
