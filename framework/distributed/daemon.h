// The process that started this rank: mpirun on its own machine, its daemon on others. Private to
// framework/distributed.
#pragma once

#include <sys/types.h>

namespace longspan {

// It ends the ranks of a job that is aborted, and itself; but not while it waits for another
// machine that does not answer, which Open MPI does without a limit.
class LauncherProcess {
 public:
  // The parent of this process, where that is one.
  LauncherProcess();
  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;
  ~LauncherProcess();

  // To be called before a rank aborts the job. Starts a process that gives the daemon some seconds,
  // and then ends it with all that it started and removes its files. That process holds nothing of
  // this one: no lock, and no output that is waited for.
  void kill_if_still_running() const;

 private:
  [[noreturn]] void watch() const;

  pid_t id_ = 0;
  int handle_ = -1;  // of the process itself: its number may become another's
};

}  // namespace longspan
