// Implementation of nccl_library.h without nccl.h.
#include "framework/distributed/nccl_library.h"

namespace longspan::nccl {

std::string unavailable_reason() { return "longspan was built without NCCL"; }

namespace {

NcclStatus refusal() { return {.error = unavailable_reason()}; }

}  // namespace

NcclStatus make_id(Id&) { return refusal(); }
NcclStatus make(NcclComm*&, const Id&, int, int) { return refusal(); }
NcclStatus state(NcclComm&) { return refusal(); }
NcclStatus finalize(NcclComm&) { return refusal(); }
void destroy(NcclComm*) noexcept {}
void abort(NcclComm*, int) noexcept {}
bool preserves_order(const NcclComm&) { return true; }
NcclStatus start_group(NcclComm&) { return refusal(); }
NcclStatus end_group(NcclComm&) { return refusal(); }
NcclStatus send(NcclComm&, const void*, std::size_t, DType, int, CUstream_st*) { return refusal(); }
NcclStatus receive(NcclComm&, void*, std::size_t, DType, int, CUstream_st*) { return refusal(); }
NcclStatus all_reduce(NcclComm&, const void*, void*, std::size_t, DType, Reduction, CUstream_st*) {
  return refusal();
}
NcclStatus all_gather(NcclComm&, const void*, void*, std::size_t, DType, CUstream_st*) {
  return refusal();
}
NcclStatus reduce_scatter(NcclComm&, const void*, void*, std::size_t, DType, CUstream_st*) {
  return refusal();
}
NcclStatus broadcast(NcclComm&, void*, std::size_t, DType, int, CUstream_st*) { return refusal(); }

}  // namespace longspan::nccl
