// Bindings of NCCL, which is opened on first use, so that programs run without it. Implemented in
// nccl_library.cpp; without nccl.h, in no_nccl.cpp. Private to framework/distributed.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "framework/distributed/communicator.h"

struct CUstream_st;

namespace longspan::nccl {

// Returns, as a clause, why NCCL is unavailable; empty where it is available.
std::string unavailable_reason();

// Identifies a communicator to its ranks.
using Id = std::array<char, 128>;

// This rank's handle of a communicator. No call on it waits for another rank.
struct NcclComm;

// The status of a call.
struct NcclStatus {
  bool under_way = false;  // poll `state` until false; make no other call on the link before
  std::string error;       // empty on success
};

NcclStatus make_id(Id& id);
// Creates a link on the calling thread's current GPU; a link is created even on failure.
NcclStatus make(NcclComm*& link, const Id& id, int rank, int ranks);
// Returns the status of the last call and of all work queued so far.
NcclStatus state(NcclComm& link);
// Waits for the other ranks to do the same; after completion `destroy` returns immediately.
NcclStatus finalize(NcclComm& link);
void destroy(NcclComm* link) noexcept;
// Aborts queued work in any state and returns immediately, without the other ranks. It may unblock
// a call by another thread on the link, so the link stays until the process ends.
void abort(NcclComm* link, int gpu) noexcept;

// Returns whether the GPU runs work queued through several links in call order. Otherwise each
// operation must wait for the previous one. Two operations that GPUs run in different orders may
// deadlock.
bool preserves_order(const NcclComm& link);

// Queued on a stream. `count`: elements sent to or received from each rank. Calls between
// `start_group` and `end_group` start together at `end_group`.
NcclStatus start_group(NcclComm&);
NcclStatus end_group(NcclComm&);
NcclStatus send(NcclComm&, const void* from, std::size_t count, DType, int to, CUstream_st*);
NcclStatus receive(NcclComm&, void* to, std::size_t count, DType, int from, CUstream_st*);
NcclStatus all_reduce(
    NcclComm&, const void* from, void* to, std::size_t count, DType, Reduction, CUstream_st*);
NcclStatus all_gather(
    NcclComm&, const void* from, void* to, std::size_t count, DType, CUstream_st*);
NcclStatus reduce_scatter(
    NcclComm&, const void* from, void* to, std::size_t count, DType, CUstream_st*);
NcclStatus broadcast(NcclComm&, void* in_place, std::size_t count, DType, int root, CUstream_st*);

}  // namespace longspan::nccl
