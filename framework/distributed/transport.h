// Interface of the transports that execute one group's collectives. Private to
// framework/distributed.
#pragma once

#include <memory>
#include <string>

#include "framework/distributed/operation.h"

namespace longspan {

// One object per rank and group. All ranks start operations in the same order; many may be pending.
// A transport never blocks and starts no thread: `progress` does the work. Reductions add in rank
// order. Sums of bf16 and f16 accumulate in f32 and are rounded once, so all transports produce
// identical bits.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual void start(std::shared_ptr<PendingCollective> operation) = 0;
  // Makes all possible progress; returns whether anything advanced. Sets `done` of completed
  // operations.
  virtual bool progress() = 0;
  // Returns whether another rank's data belongs to a different collective than the pending one. It
  // may poll every rank and may be wrong: the ledgers decide.
  virtual bool suspects_mismatch() = 0;
  // Returns the error of the layer below, or "".
  virtual const std::string& error() const = 0;
};

}  // namespace longspan
