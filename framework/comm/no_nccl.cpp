// The bodies of nccl_library.h in a program that was built without nccl.h.
#include "framework/comm/nccl_library.h"

namespace longspan::nccl {

std::string absence() { return "this program was built without nccl.h"; }

namespace {

Answer refusal() { return {.error = absence()}; }

}  // namespace

Answer make_id(Id&) { return refusal(); }
Answer make(Link*&, const Id&, int, int) { return refusal(); }
Answer state(Link&) { return refusal(); }
Answer finalise(Link&) { return refusal(); }
void destroy(Link*) noexcept {}
void abort(Link*, int) noexcept {}
bool keeps_order(const Link&) { return true; }
Answer begin_group(Link&) { return refusal(); }
Answer end_group(Link&) { return refusal(); }
Answer send(Link&, const void*, std::size_t, DType, int, CUstream_st*) { return refusal(); }
Answer receive(Link&, void*, std::size_t, DType, int, CUstream_st*) { return refusal(); }
Answer all_reduce(Link&, const void*, void*, std::size_t, DType, Reduction, CUstream_st*) {
  return refusal();
}
Answer all_gather(Link&, const void*, void*, std::size_t, DType, CUstream_st*) { return refusal(); }
Answer reduce_scatter(Link&, const void*, void*, std::size_t, DType, CUstream_st*) {
  return refusal();
}
Answer broadcast(Link&, void*, std::size_t, DType, int, CUstream_st*) { return refusal(); }

}  // namespace longspan::nccl
