// How many threads a rank computes with, and how they wait for one another.
#pragma once

#include <cstdint>
#include <thread>

namespace longspan {

// An even share of the cores that this process may use among the `local_ranks` of its machine.
std::int64_t core_share(int local_ranks);

// Sets the threads of this rank's parallel loops: `wanted` of them (run.num_threads), or for 0 what
// OMP_NUM_THREADS says, or where that is not set either an even share of the machine's cores among
// its `local_ranks`.
void set_threads(std::int64_t wanted, int local_ranks);

// Decides whether other programs use the cores of this process. They do until shown otherwise.
class Contention {
 public:
  // `running`, `delayed`: seconds since the last call that its threads ran, and that they could
  // have run but had no core. now: seconds of any clock that begins near 0. Returns the decision.
  bool update(double now, double running, double delayed);

 private:
  bool found_ = true;
  double running_ = 0;
  double delayed_ = 0;
  double since_ = 0;       // when that was decided
  double shortest_ = 0.1;  // seconds that contention is assumed for once it was found
};

// While it lives, threads that wait for one another sleep after some microseconds where other
// programs use their cores. libgomp's threads spin for about 5 milliseconds, which is fastest on an
// idle machine; on a busy one they lose their own cores by it, and then each parallel loop takes as
// long as a time slice. libgomp spins briefly while a process has more threads than cores
// (GOMP_SPINCOUNT in its manual), so a second, sleeping team is held as long as there is
// contention. Construct it after set_threads. Does nothing where there is one thread, where
// GOMP_SPINCOUNT or OMP_WAIT_POLICY is set, or where the ranks of the machine would need more than
// 256 such threads, or more than a quarter of those that they may still start.
class SpinControl {
 public:
  explicit SpinControl(int local_ranks);

 private:
  std::jthread watch_;
};

}  // namespace longspan
