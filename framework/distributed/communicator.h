// Collectives between the processes of one axis of the mesh, or of all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "framework/core/tensor.h"

namespace longspan {

enum class Reduction : std::uint8_t { sum, maximum, minimum };

// A collective under way. The tensors it was started with must not be touched until `wait` returns;
// they are kept alive by the request. A default-constructed request is complete. Destroying an
// unfinished request waits for it, unless an exception is on its way. Work is done only within
// calls: whoever computes meanwhile calls `test` now and then. Any call moves all collectives under
// way.
//
// Of tensors on a GPU between which NCCL is used (gpu_collectives.h), `wait` returns as soon as the
// collective is queued there: what the GPU computes from then on waits for it, the host does not.
class Request {
 public:
  struct State;

  Request() = default;
  explicit Request(std::shared_ptr<State> state);

  // Returns when the collective is complete. Throws RankError past the time limit or on a mismatch.
  void wait();
  // Moves the collective on; true when it is complete. Does not wait. Throws RankError when the
  // group has failed.
  bool test();

 private:
  std::shared_ptr<State> state_;
};

// A value: copies name the same group. A communicator of size 1 does nothing. Every collective is
// entered in the ledger with the place it was called from; one that is not complete within the
// session's time limit, or that differs between ranks, throws RankError on every rank that still
// runs, naming the rank, the first collective that differs and its place. All ranks of a group must
// call the same collectives in the same order.
//
// Where NCCL carries tensors on GPUs less is promised. Sums are identical on all ranks and, on the
// same layout of the same GPUs, from run to run, but are added in an order of NCCL's own, those of
// bf16 and f16 rounded at each addition; reduce_scatter may differ from all_reduce in the last
// bits; a maximum or a minimum may lose a NaN; and what a rank has received when ranks called
// different collectives may be anything, until that is noticed. Collectives of host values and
// tensors keep the whole promise.
class Communicator {
 public:
  struct Group;
  using Place = std::source_location;

  Communicator() = default;  // size 1
  explicit Communicator(std::shared_ptr<Group> group);

  int rank() const;
  int size() const;
  // "world", "data", "tensor", ...: for messages.
  const std::string& name() const;

  // In place, element by element. Added in rank order, whatever carries it: identical on all ranks
  // and from run to run, bit for bit. Sums of bf16 and f16 are kept in f32 and rounded once; sums
  // of integers wrap around; a NaN on any rank is the result of every reduction.
  void all_reduce(const Tensor& tensor, Reduction reduction, Place place = Place::current()) const;
  // all = the ranks' tensors one after another; all has size() times the elements of mine. `mine`
  // may be part rank() of `all`.
  void all_gather(const Tensor& mine, const Tensor& all, Place place = Place::current()) const;
  // mine = part rank() of the sum of the ranks' `all`, with the bits that all_reduce would give.
  // `mine` may be part rank() of `all`.
  void reduce_scatter(const Tensor& all, const Tensor& mine, Place place = Place::current()) const;
  // Part i of `send` goes to rank i; part i of `receive` comes from rank i.
  void all_to_all(const Tensor& send, const Tensor& receive, Place place = Place::current()) const;
  void broadcast(const Tensor& tensor, int root, Place place = Place::current()) const;
  // Sends to one rank while receiving from another (a ring step). As many elements on all ranks;
  // `to` of one rank is matched by `from` of the other.
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
  // The root's bytes on every rank.
  std::string broadcast(std::string bytes, int root, Place place = Place::current()) const;
  // Every rank's bytes, in rank order, on every rank.
  std::vector<std::string> all_gather(const std::string& bytes,
                                      Place place = Place::current()) const;

  // Groups of the ranks with the same colour, ordered by key. A group of one is a communicator of
  // size 1 like the default one.
  Communicator split(int colour,
                     int key,
                     const std::string& name,
                     Place place = Place::current()) const;

  // Throws RankError, naming the first difference, unless all ranks have entered the same
  // collectives so far.
  void check_ledger(Place place = Place::current()) const;

 private:
  friend class GpuCollectives;

  std::shared_ptr<Group> group_;
};

}  // namespace longspan
