// Device and threads of a rank.
#pragma once

#include <cstdint>
#include <thread>

#include "framework/config/run_options.h"
#include "framework/core/device.h"
#include "framework/distributed/communicator.h"
#include "framework/optim/precision_options.h"

namespace longspan {

// Returns the device that run.device selects. `local_rank` numbers the ranks of this machine, which
// are assigned its GPUs round-robin. Collective: `auto` uses GPUs only if every rank has one.
// Throws ConfigurationError if a GPU is required and missing.
Device run_device(const RunOptions& run,
                  const PrecisionOptions& precision,
                  const Communicator& world,
                  int local_rank);

// Returns an even share of the cores of this process among the `local_ranks` of its machine.
std::int64_t core_share(int local_ranks);

// Sets the number of threads of this rank's parallel loops (run.num_threads). 0: OMP_NUM_THREADS,
// or if that is not set an even share of the machine's cores among its `local_ranks`.
void set_threads(std::int64_t wanted, int local_ranks);

// Detects whether other programs use the cores of this process. Assumes so until shown otherwise.
class Contention {
 public:
  // `running`, `delayed`: seconds since the last call that its threads ran, and that they were
  // runnable without a core. `now`: seconds of any clock that starts near 0. Returns the decision.
  bool update(double now, double running, double delayed);

 private:
  bool found_ = true;
  double running_ = 0;
  double delayed_ = 0;
  double since_ = 0;       // time of that decision
  double shortest_ = 0.1;  // seconds that contention is assumed for once detected
};

// During its lifetime, waiting threads sleep after some microseconds if other programs use their
// cores. libgomp's threads spin for about 5 milliseconds, which is fastest on an idle machine. On a
// busy one they lose their own cores by it, and each parallel loop takes as long as a time slice.
// libgomp spins briefly while a process has more threads than cores (GOMP_SPINCOUNT in its manual),
// so a second, sleeping team is held during contention. Construct it after set_threads. Does
// nothing with one thread, or if GOMP_SPINCOUNT or OMP_WAIT_POLICY is set. Also does nothing if the
// ranks of the machine would need more than 256 such threads, or more than a quarter of those still
// available.
class SpinControl {
 public:
  explicit SpinControl(int local_ranks);

 private:
  std::jthread watch_;
};

}  // namespace longspan
