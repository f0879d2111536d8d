// Stopping on request.
#pragma once

#include <signal.h>

#include <cstddef>
#include <vector>

namespace longspan {

// While one lives, SIGUSR1, SIGUSR2, SIGTERM, SIGHUP and SIGINT ask this process to save and stop
// instead of ending it; a second SIGINT ends it. SIGHUP and SIGINT that the process was started to
// ignore remain ignored. One at a time, made and destroyed by the main
// thread, which the signals interrupt. Open MPI forwards the first two to every rank; after others
// it kills the ranks within about two seconds.
class StopRequest {
 public:
  StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  // From then on the signals but SIGINT are ignored: what they ask for is done.
  ~StopRequest();

  // Whether one of the signals has come to this process.
  bool requested() const;

  // From now on a line on standard output and in the run's log answers the first of the signals,
  // once for all ranks: steps take their time. SIGINT has its own line on standard error.
  // `longspan run` answers itself for the ranks that it started.
  void answer_signals() const;

 private:
  // Handlers run on a stack of their own: oneDNN's products keep numbers below the stack pointer,
  // further than the 128 bytes that a signal leaves alone, and with other numbers write beyond
  // their memory.
  std::vector<std::byte> stack_;
  stack_t outer_ = {};
};

}  // namespace longspan
