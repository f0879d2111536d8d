// MPI for the life of the process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "framework/distributed/communicator.h"

namespace longspan {

class Runtime;

// What carries the collectives: memory shared by the ranks where they are all on one machine and
// MPI messages elsewhere, or messages everywhere. Both give the same bits.
enum class TransportChoice : std::uint8_t { automatic, messages };

struct SessionOptions {
  // How long a collective may take before the job is given up as hung.
  std::chrono::duration<double> time_limit{300};
  // How long other ranks have to answer before they are taken for dead.
  std::chrono::duration<double> reply_timeout{5};
  TransportChoice transport = TransportChoice::automatic;
  // MPI may already be running; then it is used, and whoever started it ends it. Without this a
  // running MPI is an error.
  bool joins_running_mpi = false;
};

// Starts MPI and ends it, or joins one that runs; one in the life of a process. A process that was
// not started with others by mpirun (or srun) is a world of one, and does not touch MPI. `main`
// keeps it outside of its `try` and ends every exception so:
//   if (session.claim_error_report()) {
//     std::fputs(sentence, stderr);
//     session.tell(sentence);
//   }
//   session.abort(exit_code);
class Session {
 public:
  explicit Session(const SessionOptions& options = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Waits for the other ranks and finalises MPI where it has started it; when they do not come,
  // says so and aborts with 5. While an exception is on its way, and where MPI is over already, it
  // does neither.
  ~Session();

  const Communicator& world() const { return world_; }
  // The limit may be set once the configuration is read.
  void set_time_limit(std::chrono::duration<double> limit);
  // Ranks on this machine, and this one's place among them.
  int local_rank() const;
  int local_size() const;
  // How long this rank has waited for collectives so far, beside what it computed while they were
  // under way. Of those that NCCL carries a GPU waits and not the host: they do not count.
  std::chrono::duration<double> waited() const;
  // True on one rank: the one whose sentence is printed when several fail at once. It is the first
  // to ask, as decided by the lowest rank that still answers. A rank that is told false should call
  // `abort` at once, which leaves the end to that other rank for as long as the grace.
  bool claim_error_report() const;
  // Who else is told that sentence, on the rank that prints it: a run has a log.
  void set_listener(std::function<void(const char* sentence)> listener);
  void tell(const char* sentence) const;
  // Ends every process of the job with that exit code. Does not return.
  [[noreturn]] void abort(int exit_code) const;

 private:
  std::shared_ptr<Runtime> runtime_;
  int exceptions_;
  std::function<void(const char*)> listener_;
  Communicator world_;
};

}  // namespace longspan
