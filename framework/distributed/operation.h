// What one collective does, as the ledger records it and as a transport carries it out. Private to
// framework/distributed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/begun_span.h"
#include "framework/core/gpu.h"
#include "framework/core/span.h"
#include "framework/distributed/communicator.h"

namespace longspan {

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

// What must be equal on all ranks of a group.
struct CollectiveSignature {
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::u8;
  Reduction reduction = Reduction::sum;
  std::int32_t root = -1;     // broadcast: the root's rank in the world
  std::int64_t elements = 0;  // of the tensor that a rank gives; of one part in reduce_scatter

  friend bool operator==(const CollectiveSignature&, const CollectiveSignature&) = default;
};

// "all_reduce of 100 f32".
std::string to_string(const CollectiveSignature& signature);

// One collective under way on one rank. `part` is the number of elements that go to or come from
// one rank:
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
  int root = -1;  // ranks in the group
  int to = -1;
  int from = -1;

  std::uint64_t sequence = 0;  // its number in the group's ledger, from 1
  std::uint64_t hash = 0;      // the rolling hash of the ledger up to it
  Communicator::Place place;
  bool done = false;    // nothing of it is left to the host
  OpenSpan begun = {};  // for whoever asks where the time goes

  // What `send` and `receive` point into lives as long as the operation.
  std::array<Tensor, 2> tensors;
  std::vector<std::byte> bytes;
  // Of tensors on a GPU, which are carried in host memory: where what was received goes.
  Tensor delivered = {};
  // Of tensors that NCCL carries: where the GPU has done it.
  bool on_gpu = false;
  std::shared_ptr<const gpu::Event> end = {};

  // Whether what was received is there.
  bool complete() const { return done && (!end || end->is_complete()); }
  // Once it is done, brings what was received to where it is wanted. What a GPU computes from here
  // on waits for it there, and so may use the tensors' memory for something else.
  void deliver() {
    if (delivered.defined()) std::exchange(delivered, {}).copy_from(tensors[1]);
    if (end) std::exchange(end, {})->make_stream_wait(tensors[1].device().state().stream());
    if (on_gpu) tensors = {};
  }

  std::size_t element_size() const { return size_of(signature.dtype); }
  // Of the tensor that a rank gives, as the ledger has it.
  std::int64_t bytes_given() const {
    return signature.elements * static_cast<std::int64_t>(element_size());
  }
};

}  // namespace longspan
