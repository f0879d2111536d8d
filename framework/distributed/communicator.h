// Collectives between the processes of one mesh axis, or of the world.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

enum class Reduction : std::uint8_t { sum, maximum, minimum };

// A pending collective. Its tensors must not be accessed until `wait` returns; the request keeps
// them alive. A default-constructed request is complete. The destructor waits for an unfinished
// request, except during stack unwinding. Progress is made only within calls, so a caller that
// computes meanwhile should call `test` regularly. Any call advances all pending collectives.
// way.
//
// For GPU tensors that NCCL communicates (gpu_collectives.h), `wait` returns once the collective is
// queued. Later GPU work waits for it; the host does not.
class Request {
 public:
  struct State;

  Request() = default;
  explicit Request(std::shared_ptr<State> state);

  // Blocks until the collective is complete. Throws RankError on a timeout or a mismatch.
  void wait();
  // Advances the collective and returns whether it is complete, without blocking. Throws RankError
  // when the group has failed.
  bool test();

 private:
  std::shared_ptr<State> state_;
};

// A value type: copies refer to the same group. A communicator of size 1 does nothing. The ledger
// records every collective with its call site. A collective that exceeds the session's time limit,
// or that differs between ranks, throws RankError on every running rank. The message contains the
// rank, the first differing collective and its call site. All ranks of a group must call identical
// collectives in the same order.
//
// NCCL guarantees less for GPU tensors. Sums are identical on all ranks, and reproducible for the
// same layout of the same GPUs. But NCCL chooses the order of addition and rounds bf16 and f16 at
// each addition. reduce_scatter may differ from all_reduce in the last bits, and a maximum or
// minimum may lose a NaN. If ranks call different collectives, received data is undefined until the
// mismatch is detected. Collectives of host values and host tensors keep the full guarantee.
class Communicator {
 public:
  struct Group;
  using Place = std::source_location;

  Communicator() = default;  // size 1
  explicit Communicator(std::shared_ptr<Group> group);

  int rank() const;
  int size() const;
  // Returns the group's name for messages: "world", "data", "tensor", ...
  const std::string& name() const;

  // Reduces in place, element-wise. Adds in rank order on every host transport: bitwise identical
  // on all ranks and across runs. Sums of bf16 and f16 accumulate in f32 and are rounded once.
  // Integer sums wrap around. A NaN on any rank makes the result NaN.
  void all_reduce(const Tensor& tensor, Reduction reduction, Place place = Place::current()) const;
  // Concatenates the ranks' tensors: all has size() times the elements of mine. `mine` may alias
  // slice rank() of `all`.
  void all_gather(const Tensor& mine, const Tensor& all, Place place = Place::current()) const;
  // Writes slice rank() of the sum of the ranks' `all` to mine, with bits identical to all_reduce.
  // `mine` may alias slice rank() of `all`.
  void reduce_scatter(const Tensor& all, const Tensor& mine, Place place = Place::current()) const;
  // Slice i of `send` goes to rank i; slice i of `receive` comes from rank i.
  void all_to_all(const Tensor& send, const Tensor& receive, Place place = Place::current()) const;
  void broadcast(const Tensor& tensor, int root, Place place = Place::current()) const;
  // Sends to one rank while receiving from another (a ring step). Requires an equal number of
  // elements on all ranks, and each rank's `to` must match the receiver's `from`.
  void exchange(const Tensor& send,
                int to,
                const Tensor& receive,
                int from,
                Place place = Place::current()) const;
  void barrier(Place place = Place::current()) const;

  [[nodiscard]] Request start_all_reduce(const Tensor& tensor,
                                         Reduction reduction,
                                         Place place = Place::current()) const;
  [[nodiscard]] Request start_all_gather(const Tensor& mine,
                                         const Tensor& all,
                                         Place place = Place::current()) const;
  [[nodiscard]] Request start_reduce_scatter(const Tensor& all,
                                             const Tensor& mine,
                                             Place place = Place::current()) const;
  [[nodiscard]] Request start_exchange(const Tensor& send,
                                       int to,
                                       const Tensor& receive,
                                       int from,
                                       Place place = Place::current()) const;

  // Host values, for small control data.
  double all_reduce(double value, Reduction reduction, Place place = Place::current()) const;
  std::int64_t all_reduce(std::int64_t value,
                          Reduction reduction,
                          Place place = Place::current()) const;
  // Returns the root's bytes on every rank.
  std::string broadcast(std::string bytes, int root, Place place = Place::current()) const;
  // Returns every rank's bytes, in rank order, on every rank.
  std::vector<std::string> all_gather(const std::string& bytes,
                                      Place place = Place::current()) const;

  // Returns the group of ranks with equal color, ordered by key. A group of one is a communicator
  // of size 1.
  Communicator split(int color,
                     int key,
                     const std::string& name,
                     Place place = Place::current()) const;

  // Throws RankError with the first difference unless all ranks have entered identical collectives
  // so far.
  void check_ledger(Place place = Place::current()) const;

 private:
  friend class GpuCollectives;

  std::shared_ptr<Group> group_;
};

}  // namespace longspan
