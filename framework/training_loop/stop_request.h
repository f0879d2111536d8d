// Stops a run on request.
#pragma once

#include <signal.h>

#include <cstddef>
#include <vector>

namespace longspan {

// During its lifetime, SIGUSR1, SIGUSR2, SIGTERM, SIGHUP and SIGINT request this process to save
// and stop instead of ending it. A second SIGINT ends it. If the process was started with SIGHUP or
// SIGINT ignored, they remain ignored. Requires at most one instance, constructed and destroyed by
// the main thread, which the signals interrupt. Open MPI forwards the first two to every rank;
// after the others it kills the ranks within about two seconds.
class StopRequest {
 public:
  StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  // Afterwards all these signals but SIGINT are ignored, as their request is fulfilled.
  ~StopRequest();

  // Returns whether this process has received one of the signals.
  bool requested() const;

  // From now on the first signal is acknowledged, once for all ranks, as steps take time. The
  // message goes to standard output and the run's log, for SIGINT to standard error. `longspan
  // launch` acknowledges the signals for the ranks that it started.
  void answer_signals() const;

 private:
  // Handlers run on their own stack. oneDNN's products store values below the stack pointer, beyond
  // the 128 bytes that a signal preserves (the red zone). With corrupted values they write out of
  // bounds.
  std::vector<std::byte> stack_;
  stack_t outer_ = {};
};

}  // namespace longspan
