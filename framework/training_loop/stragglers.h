// Ranks that the others wait for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/distributed/communicator.h"
#include "framework/training_loop/log.h"

namespace longspan {

// Seconds that one rank has spent in steps, and of them those in which it waited for collectives.
struct StepWait {
  double seconds = 0;
  double waited = 0;
};

// "rank 3 is slow: the others waited 81% of the time of the last 50 steps for it, and it 2%": of
// ranks that waited far less than all others, at most half of them. Empty where there are none.
std::string slow_ranks_text(const std::vector<StepWait>& of_ranks, std::int64_t steps);

// Compares the ranks now and then, so that a log says which one is to be looked after. Of what GPUs
// wait for in NCCL the host knows nothing: there no rank is named.
class StragglerDetector {
 public:
  // Of a step, on every rank. Collective at every tenth step. On rank 0 the log names slow ranks
  // once there were enough seconds to compare, and again when they are others.
  void add(const StepWait& step, const Communicator& world, const Log& log);

 private:
  StepWait sum_;
  std::int64_t steps_ = 0;
  // Rank 0's: what the ranks' sums were when they were compared last.
  std::vector<StepWait> before_;
  std::int64_t steps_before_ = 0;
  std::string said_of_;        // the ranks named last
  double least_seconds_ = 10;  // doubled with each sentence
};

}  // namespace longspan
