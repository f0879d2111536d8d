// Interface of the transports that execute one group's collectives, and the element-wise reduction
// that the CPU transports share. Private to framework/distributed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/gpu.h"
#include "framework/core/span.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Description of one collective, for the ledger and the transports. Private to
// framework/distributed.
enum class CollectiveKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  exchange,
  barrier,
};
std::string_view name_of(CollectiveKind kind);

// The properties that must be equal on all ranks of a group.
struct CollectiveSignature {
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::u8;
  Reduction reduction = Reduction::sum;
  std::int32_t root = -1;     // broadcast: the root's rank in the world
  std::int64_t elements = 0;  // of a rank's input tensor; of one part in reduce_scatter

  friend bool operator==(const CollectiveSignature&, const CollectiveSignature&) = default;
};

// Returns "all_reduce of 100 f32".
std::string to_string(const CollectiveSignature& signature);

// One pending collective on one rank. `part`: number of elements sent to or received from one rank:
//   all_reduce, broadcast   part elements at `receive`, in place (send == receive)
//   all_gather              part at `send`, size * part at `receive`
//   reduce_scatter          size * part at `send`, part at `receive`
//   all_to_all              size * part at both
//   exchange                part at both
struct PendingCollective {
  CollectiveSignature signature;
  std::int64_t part = 0;
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  int root = -1;  // in the group, as `to` and `from`
  int to = -1;
  int from = -1;

  std::uint64_t sequence = 0;  // its number in the group's ledger, from 1
  std::uint64_t hash = 0;      // the rolling hash of the ledger up to it
  Communicator::Place place;
  bool done = false;    // no work is left for the host
  OpenSpan begun = {};  // for the profiler

  // Owners of the memory of `send` and `receive`.
  std::array<Tensor, 2> tensors;
  std::vector<std::byte> bytes;
  // Destination of received data, for GPU tensors communicated through host memory.
  Tensor delivered = {};
  // For NCCL: the event at which the GPU has completed it.
  bool on_gpu = false;
  std::shared_ptr<const gpu::Event> end = {};

  // Returns whether the received data is available.
  bool complete() const { return done && (!end || end->is_complete()); }
  // Call once it is done. Copies received data to its destination. Later GPU work waits for it
  // there, so it may reuse the tensors' memory.
  void deliver() {
    if (delivered.defined()) std::exchange(delivered, {}).copy_from(tensors[1]);
    if (end) std::exchange(end, {})->make_stream_wait(tensors[1].device().state().stream());
    if (on_gpu) tensors = {};
  }

  std::size_t element_size() const { return size_of(signature.dtype); }
  // Returns the bytes of a rank's input tensor, as the ledger records it.
  std::int64_t input_bytes() const {
    return signature.elements * static_cast<std::int64_t>(element_size());
  }
};

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

// Element-wise reduction over ranks.

// Computes outputs[j][i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ...; bf16 and f16
// accumulate in f32 and are rounded once. An output may alias one of the sources exactly. Integer
// sums wrap around.
void reduce_in_order(DType dtype,
                     Reduction reduction,
                     std::span<const std::byte* const> sources,
                     std::span<std::byte* const> outputs,
                     std::int64_t elements);

}  // namespace longspan
