// What Longspan asks of NCCL, which is opened when it is first needed: a program runs where there
// is none. The bodies are in nccl_library.cpp; where nccl.h was missing, in no_nccl.cpp. Private to
// framework/distributed.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "framework/distributed/communicator.h"

struct CUstream_st;

namespace longspan::nccl {

// Why there is none to use, as a clause; empty where there is one.
std::string unavailable_reason();

// Names a communicator to its ranks.
using Id = std::array<char, 128>;

// This rank's part of a communicator. No call on it waits for another rank.
struct NcclComm;

// What became of a call.
struct NcclStatus {
  bool under_way = false;  // ask `state` until it is not, and call nothing else on the link before
  std::string error;       // what failed; empty when nothing did
};

NcclStatus make_id(Id& id);
// Of the GPU that the calling thread has selected. Makes a link, also where something fails.
NcclStatus make(NcclComm*& link, const Id& id, int rank, int ranks);
// What became of the last call, and of all that has been queued so far.
NcclStatus state(NcclComm& link);
// Waits for the other ranks to do the same; once it is done, `destroy` returns at once.
NcclStatus finalise(NcclComm& link);
void destroy(NcclComm* link) noexcept;
// Ends what is queued, wherever it stands, and returns at once; the other ranks are not asked. A
// call on the link by another thread may come back because of it: the link stays until the process
// ends.
void abort(NcclComm* link, int gpu) noexcept;

// Whether the GPU takes what is queued through several links in the order of the calls. Where it
// does not, each has to wait for the one before it: two that a GPU takes in another order than its
// peers may each keep the other's from beginning.
bool keeps_order(const NcclComm& link);

// Queued on a stream. `count` elements go to or come from each rank. A call between `begin_group`
// and `end_group` begins with the latter, together with the others.
NcclStatus begin_group(NcclComm&);
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
