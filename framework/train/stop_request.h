// Stopping on request.
#pragma once

namespace longspan {

// While one lives, SIGUSR1, SIGUSR2 and SIGTERM ask this process to save and stop instead of ending
// it. One at a time. Open MPI forwards the first two to every rank; after SIGTERM it kills the
// ranks within about two seconds.
class StopRequest {
 public:
  StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  // From then on the signals are ignored: what they ask for is done.
  ~StopRequest();

  // Whether one of the signals has come to this process.
  bool asked() const;
};

}  // namespace longspan
