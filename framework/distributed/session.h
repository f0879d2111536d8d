// The MPI session of the process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "framework/distributed/communicator.h"

namespace longspan {

class Runtime;

// Transport of host collectives. automatic: shared memory where all ranks are on one machine, else
// MPI messages. messages: always MPI messages. Both produce identical bits.
enum class TransportChoice : std::uint8_t { automatic, messages };

struct SessionOptions {
  // Timeout of a collective, after which the job is considered hung.
  std::chrono::duration<double> time_limit{300};
  // Time for other ranks to answer before they are considered dead.
  std::chrono::duration<double> reply_timeout{5};
  TransportChoice transport = TransportChoice::automatic;
  // Whether to use an MPI that is already running, which its owner finalizes. Otherwise a running
  // MPI is an error.
  bool joins_running_mpi = false;
};

// Starts and ends MPI, or joins a running one; one session per process. A process not started by
// mpirun (or srun) is a world of one and does not use MPI. `main` keeps the session outside of its
// `try` and handles every exception as follows. The rank for which claim_error_report() returns
// true prints the message to standard error and passes it to the listener. Every rank then calls
// abort(exit_code).
class Session {
 public:
  explicit Session(const SessionOptions& options = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Waits for the other ranks and finalizes MPI where this session started it. On a timeout it
  // prints a message and aborts with exit code 5. During stack unwinding, or after MPI was
  // finalized, it does neither.
  ~Session();

  const Communicator& world() const { return world_; }
  // Sets the limit, once the configuration is read.
  void set_time_limit(std::chrono::duration<double> limit);
  // The rank among this machine's ranks, and their number.
  int local_rank() const;
  int local_size() const;
  // Returns the total time this rank has waited for collectives, excluding overlapped computation.
  // NCCL collectives do not count: the GPU waits for them, not the host.
  std::chrono::duration<double> waited() const;
  // Returns true on one rank, whose message is printed when several fail at once. It is the first
  // to ask; the lowest answering rank decides. A rank that receives false should call `abort` at
  // once, which leaves the end to that other rank for the grace period.
  bool claim_error_report() const;
  // Sets a further receiver of that message on the printing rank, such as a run's log.
  void set_listener(std::function<void(const char* sentence)> listener);
  void tell(const char* sentence) const;
  // Ends every process of the job with that exit code.
  [[noreturn]] void abort(int exit_code) const;

 private:
  std::shared_ptr<Runtime> runtime_;
  int exceptions_;
  std::function<void(const char*)> listener_;
  Communicator world_;
};

// Messages from a job to `longspan launch`, the process that started it.

// Environment variable with the name of the launcher's socket: an abstract Linux socket, which
// needs no file.
inline constexpr const char* launcher_variable = "LONGSPAN_LAUNCHER";

// If this variable is set, a rank that ends the job writes a line to standard error: these words
// and its exit code. mpirun returns its own code when a machine is unreachable.
inline constexpr const char* end_variable = "LONGSPAN_REPORTS_END";
inline constexpr std::string_view end_words = "longspan ends the job: ";

// Writes that line if the variable is set.
void report_job_end(int exit_code);

// Sends this process's current activity, such as "step 41", which the launcher shows while the job
// is stopping. Takes microseconds and never blocks. Does nothing without a launcher on this
// machine; undeliverable messages are dropped.
void notify_launcher(std::string_view doing);

}  // namespace longspan
