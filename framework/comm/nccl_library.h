// What Longspan asks of NCCL, which is opened when it is first needed: a program runs where there
// is none. The bodies are in nccl_library.cpp; where nccl.h was missing, in no_nccl.cpp. Private to
// framework/comm.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "framework/comm/communicator.h"

struct CUstream_st;

namespace longspan::nccl {

// Why there is none to use, as a clause; empty where there is one.
std::string absence();

// Names a communicator to its ranks.
using Id = std::array<char, 128>;

// This rank's part of a communicator. No call on it waits for another rank.
struct Link;

// What became of a call.
struct Answer {
  bool under_way = false;  // ask `state` until it is not, and call nothing else on the link before
  std::string error;       // what failed; empty when nothing did
};

Answer make_id(Id& id);
// Of the GPU that the calling thread has selected. Makes a link, also where something fails.
Answer make(Link*& link, const Id& id, int rank, int ranks);
// What became of the last call, and of all that has been queued so far.
Answer state(Link& link);
// Waits for the other ranks to do the same; once it is done, `destroy` returns at once.
Answer finalise(Link& link);
void destroy(Link* link) noexcept;
// Ends what is queued, wherever it stands, and returns at once; the other ranks are not asked. A
// call on the link by another thread may come back because of it: the link stays until the process
// ends.
void abort(Link* link, int gpu) noexcept;

// Whether the GPU takes what is queued through several links in the order of the calls. Where it
// does not, each has to wait for the one before it: two that a GPU takes in another order than its
// peers may each keep the other's from beginning.
bool keeps_order(const Link& link);

// Queued on a stream. `count` elements go to or come from each rank. A call between `begin_group`
// and `end_group` begins with the latter, together with the others.
Answer begin_group(Link&);
Answer end_group(Link&);
Answer send(Link&, const void* from, std::size_t count, DType, int to, CUstream_st*);
Answer receive(Link&, void* to, std::size_t count, DType, int from, CUstream_st*);
Answer all_reduce(
    Link&, const void* from, void* to, std::size_t count, DType, Reduction, CUstream_st*);
Answer all_gather(Link&, const void* from, void* to, std::size_t count, DType, CUstream_st*);
Answer reduce_scatter(Link&, const void* from, void* to, std::size_t count, DType, CUstream_st*);
Answer broadcast(Link&, void* in_place, std::size_t count, DType, int root, CUstream_st*);

}  // namespace longspan::nccl
