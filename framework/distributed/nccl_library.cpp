#include "framework/distributed/nccl_library.h"

#include <dlfcn.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <type_traits>

#include "framework/core/gpu.h"
#include "framework/core/system.h"

namespace longspan::nccl {
namespace {

static_assert(sizeof(Id) == sizeof(ncclUniqueId));

constexpr int oldest = 21900;  // the first version in which several threads may abort at once
constexpr int oldest_in_order = 22600;

// Sets NCCL's environment variables, unless the user has set them.
void* open_library() {
  // Kernels of several communicators start in call order.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  // NVLink SHARP sums differ from call to call (github.com/NVIDIA/nccl/issues/1497).
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  return open_cuda_library("libnccl.so.2", "GPU collectives", LONGSPAN_NCCL_LIBRARIES);
}

struct Library {
  std::string unavailable_reason;
  bool preserves_order = false;
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetErrorString) error_text = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGetUniqueId) make_id = nullptr;
  decltype(&ncclCommInitRankConfig) make = nullptr;
  decltype(&ncclCommGetAsyncError) state = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGroupStart) start_group = nullptr;
  decltype(&ncclGroupEnd) end_group = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;

  Library() {
    try {
      find_all(open_library());
    } catch (const Failure& failure) {
      unavailable_reason = failure.what();
    }
    int found = 0;
    if (unavailable_reason.empty() && (version(&found) != ncclSuccess || found < oldest))
      unavailable_reason = fmt::format("NCCL {} or newer required, found {}", oldest, found);
    const char* const asked_for = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    preserves_order =
        found >= oldest_in_order && asked_for != nullptr && std::strcmp(asked_for, "1") == 0;
  }

 private:
  void find_all(void* opened) {
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(opened, name));
      if (function == nullptr && unavailable_reason.empty())
        unavailable_reason = fmt::format("NCCL has no function {}", name);
    };
    find(version, "ncclGetVersion");
    find(error_text, "ncclGetErrorString");
    find(last_error, "ncclGetLastError");
    find(make_id, "ncclGetUniqueId");
    find(make, "ncclCommInitRankConfig");
    find(state, "ncclCommGetAsyncError");
    find(finalize, "ncclCommFinalize");
    find(destroy, "ncclCommDestroy");
    find(abort, "ncclCommAbort");
    find(start_group, "ncclGroupStart");
    find(end_group, "ncclGroupEnd");
    find(send, "ncclSend");
    find(receive, "ncclRecv");
    find(all_reduce, "ncclAllReduce");
    find(all_gather, "ncclAllGather");
    find(reduce_scatter, "ncclReduceScatter");
    find(broadcast, "ncclBroadcast");
  }
};

NcclStatus answer(const Library& library, ncclResult_t result, ncclComm_t communicator = nullptr) {
  if (result == ncclSuccess) return {};
  if (result == ncclInProgress) return {.under_way = true, .error = ""};
  std::string text = library.error_text(result);
  const char* const detail = library.last_error(communicator);
  if (detail != nullptr && *detail != '\0') text += fmt::format(" ({})", detail);
  return {.under_way = false, .error = text};
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::u8:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t reduction_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::maximum:
      return ncclMax;
    case Reduction::minimum:
      return ncclMin;
  }
  return ncclSum;
}

}  // namespace

struct NcclComm {
  Library library;
  ncclComm_t communicator = nullptr;

  NcclStatus answer(ncclResult_t result) const {
    return nccl::answer(library, result, communicator);
  }
};

std::string unavailable_reason() { return Library().unavailable_reason; }

NcclStatus make_id(Id& id) {
  const Library library;
  if (!library.unavailable_reason.empty())
    return {.under_way = false, .error = library.unavailable_reason};
  ncclUniqueId made;
  const ncclResult_t result = library.make_id(&made);
  std::memcpy(id.data(), made.internal, id.size());
  return answer(library, result);
}

NcclStatus make(NcclComm*& link, const Id& id, int rank, int ranks) {
  link = new NcclComm;
  if (!link->library.unavailable_reason.empty())
    return {.under_way = false, .error = link->library.unavailable_reason};
  ncclUniqueId name;
  std::memcpy(name.internal, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return link->answer(link->library.make(&link->communicator, ranks, name, rank, &config));
}

NcclStatus state(NcclComm& link) {
  ncclResult_t found = ncclSuccess;
  const ncclResult_t result = link.library.state(link.communicator, &found);
  return link.answer(result == ncclSuccess ? found : result);
}

NcclStatus finalize(NcclComm& link) {
  return link.answer(link.library.finalize(link.communicator));
}

void destroy(NcclComm* link) noexcept {
  if (link->communicator != nullptr) link->library.destroy(link->communicator);
  delete link;
}

// Runs on a separate thread, since it frees memory and so waits for the complete GPU. That includes
// other communicators still to be aborted; ranks of this machine that do not abort theirs may block
// it forever.
void abort(NcclComm* link, int gpu) noexcept try {
  std::thread([link, gpu] {
    try {
      gpu::select(gpu);
    } catch (const Failure&) {
      // The GPU is lost, and so are the communicator's kernels.
    }
    if (link->communicator != nullptr) link->library.abort(link->communicator);
  }).detach();
} catch (const std::system_error&) {
  // Without a thread the communicator cannot be aborted.
}

bool preserves_order(const NcclComm& link) { return link.library.preserves_order; }

NcclStatus start_group(NcclComm& link) { return link.answer(link.library.start_group()); }
NcclStatus end_group(NcclComm& link) { return link.answer(link.library.end_group()); }

NcclStatus send(
    NcclComm& link, const void* from, std::size_t count, DType dtype, int to, CUstream_st* stream) {
  return link.answer(link.library.send(from, count, type_of(dtype), to, link.communicator, stream));
}

NcclStatus receive(
    NcclComm& link, void* to, std::size_t count, DType dtype, int from, CUstream_st* stream) {
  return link.answer(
      link.library.receive(to, count, type_of(dtype), from, link.communicator, stream));
}

NcclStatus all_reduce(NcclComm& link,
                      const void* from,
                      void* to,
                      std::size_t count,
                      DType dtype,
                      Reduction reduction,
                      CUstream_st* stream) {
  return link.answer(link.library.all_reduce(
      from, to, count, type_of(dtype), reduction_of(reduction), link.communicator, stream));
}

NcclStatus all_gather(NcclComm& link,
                      const void* from,
                      void* to,
                      std::size_t count,
                      DType dtype,
                      CUstream_st* stream) {
  return link.answer(
      link.library.all_gather(from, to, count, type_of(dtype), link.communicator, stream));
}

NcclStatus reduce_scatter(NcclComm& link,
                          const void* from,
                          void* to,
                          std::size_t count,
                          DType dtype,
                          CUstream_st* stream) {
  return link.answer(link.library.reduce_scatter(
      from, to, count, type_of(dtype), ncclSum, link.communicator, stream));
}

NcclStatus broadcast(
    NcclComm& link, void* in_place, std::size_t count, DType dtype, int root, CUstream_st* stream) {
  return link.answer(link.library.broadcast(
      in_place, in_place, count, type_of(dtype), root, link.communicator, stream));
}

}  // namespace longspan::nccl
