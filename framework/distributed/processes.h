// Processes of this machine, from /proc, and the one that started this rank.
#pragma once

#include <sys/types.h>

#include <vector>

namespace longspan {

// Returns the process's descendants, as far as their parents are alive.
std::vector<pid_t> descendants_of(pid_t process);

// The process that started this rank: mpirun on its own machine, its daemon on others. Private to
// framework/distributed.

// Ends the ranks of an aborted job, and itself. But Open MPI waits without limit for a machine that
// does not respond.
class LauncherProcess {
 public:
  // Refers to the parent of this process, if it is such a launcher.
  LauncherProcess();
  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;
  ~LauncherProcess();

  // Call before a rank aborts the job. Starts a process that gives the daemon a few seconds, then
  // kills its process tree and removes its files. That process holds none of this one's locks, and
  // no output that another process waits for.
  void kill_if_still_running() const;

 private:
  [[noreturn]] void watch() const;

  pid_t id_ = 0;
  int handle_ = -1;  // pidfd, since process ids are reused
};

}  // namespace longspan
