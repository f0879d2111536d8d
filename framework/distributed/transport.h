// Interface of the transports that execute one group's collectives. Private to
// framework/distributed.
#pragma once

#include <memory>
#include <string>

#include "framework/distributed/operation.h"

namespace longspan {

// One object a rank and group. Operations are started in the same order on all ranks and may be
// many under way. A transport never blocks and starts no thread: work is done in `progress`.
// Reductions add in rank order, and sums of bf16 and f16 are kept in f32 and rounded once, so all
// transports give the same bits.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual void start(std::shared_ptr<PendingCollective> operation) = 0;
  // Does what can be done now; true when anything moved. Sets `done` of completed operations.
  virtual bool progress() = 0;
  // True when another rank's data belongs to another collective than the one under way here. It may
  // cost a look at every rank, and may be mistaken: the ledgers decide.
  virtual bool suspects_mismatch() = 0;
  // What went wrong in the layer below; empty when nothing did.
  virtual const std::string& error() const = 0;
};

}  // namespace longspan
