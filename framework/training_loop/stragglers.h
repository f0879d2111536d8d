// Detects ranks that the others wait for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/distributed/communicator.h"
#include "framework/training_loop/log.h"

namespace longspan {

// Seconds that one rank has spent in steps, and the part spent waiting for collectives.
struct StepWait {
  double seconds = 0;
  double waited = 0;
};

// Returns, for example, "rank 3 is slow: the others waited 81% of the time of the last 50 steps for
// it, and it 2%". It lists ranks that waited far less than all others, at most half of them. Empty
// if there are none.
std::string slow_ranks_text(const std::vector<StepWait>& of_ranks, std::int64_t steps);

// Compares the ranks at intervals and logs slow ones. The host cannot measure how long GPUs wait in
// NCCL, so no rank is named there.
class StragglerDetector {
 public:
  // Adds a step on every rank. Collective at every tenth step. Rank 0 logs the slow ranks once
  // enough seconds have been measured, and again when they change.
  void add(const StepWait& step, const Communicator& world, const Log& log);

 private:
  StepWait sum_;
  std::int64_t steps_ = 0;
  // On rank 0: sums of the ranks at the last comparison.
  std::vector<StepWait> before_;
  std::int64_t steps_before_ = 0;
  std::string last_reported_;  // the ranks named last
  double min_seconds_ = 10;    // doubled after each message
};

}  // namespace longspan
