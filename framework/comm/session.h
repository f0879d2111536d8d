// MPI for the life of the process.
#pragma once

#include <chrono>
#include <memory>

#include "framework/comm/communicator.h"

namespace longspan {

struct SessionOptions {
  // How long a collective may take before the job is given up as hung.
  std::chrono::duration<double> time_limit{300};
};

// Starts MPI and ends it. One at a time. A process that was not started by mpirun is a world of
// one.
class Session {
 public:
  explicit Session(const SessionOptions& options = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Finalises MPI. While an exception is on its way it does not wait for the other ranks.
  ~Session();

  const Communicator& world() const { return world_; }
  // The limit may be set once the configuration is read.
  void set_time_limit(std::chrono::duration<double> limit);
  // Ranks on this machine, and this one's place among them.
  int local_rank() const;
  int local_size() const;
  // Ends every process of the job with that exit code. Does not return.
  [[noreturn]] void abort(int exit_code) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  Communicator world_;
};

}  // namespace longspan
