// The part of CUDA's runtime that Longspan's kernels use, on the host: with this folder before
// CUDA's in the include path a .cu file compiles as plain C++. The blocks of a grid run one after
// another, a block's threads as fibers that give way where they wait for each other: quick, always
// in the same order, and known to the sanitizers, so that the thread sanitizer reports a
// __syncthreads that was left out, and the address sanitizer what lies beyond a block's shared
// memory. That is full of NaN when a block starts.
//
// Checked beyond what a GPU checks: threads that wait for each other do so at the same line, and
// none waits for ever; a warp exchanges with all of its lanes; what warps read and copies write by
// 16 bytes is shared memory of the block.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <source_location>
#include <tuple>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct CUstream_st;
using cudaStream_t = CUstream_st*;
struct CUevent_st;
using cudaEvent_t = CUevent_st*;

enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidConfiguration,
  cudaErrorInvalidValue,
  cudaErrorInvalidDevice,
  cudaErrorInsufficientDriver,
  cudaErrorNoDevice,
  cudaErrorMemoryAllocation,
  cudaErrorNotReady,
};
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

// One device, whose memory is apart from the host's: only while a kernel or a copy runs can it be
// read and written. A host that touches it at another time dies of it. Fresh blocks are full of
// NaN.
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor,
  cudaDevAttrMultiProcessorCount,
};
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
// As many devices as ranks of a job, of which each sees its own.
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device);
cudaError_t cudaMalloc(void** block, std::size_t bytes);
cudaError_t cudaFree(void* block);
cudaError_t cudaMallocHost(void** block, std::size_t bytes);
cudaError_t cudaFreeHost(void* block);

// What is queued on a stream is done at once, unless it is behind something that waits: for an
// event of another stream, or for what a library does there. That goes on only when the host asks
// about a stream or an event, or waits.
inline constexpr unsigned cudaStreamNonBlocking = 1;
cudaError_t cudaDeviceGetStreamPriorityRange(int* last, int* first);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

inline constexpr unsigned cudaEventDisableTiming = 2;
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all);
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault,
};
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);

struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
  dim3 gridDim = {};
  dim3 blockDim = {};
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

inline dim3 threadIdx;
inline dim3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;

namespace emulated_cuda {

// What a block may ask for on every GPU that Longspan is built for.
inline constexpr std::size_t most_shared_bytes = 160 * 1024;

// What the blocks of a kernel may ask for from now on: without it 48 KB.
cudaError_t let_share(const void* kernel, std::size_t bytes);
// What a thread of it does, and where the arguments of that are for as long as it lives.
struct Call {
  std::function<void()> of_thread;
  std::vector<const void*> arguments;
};
cudaError_t run(const cudaLaunchConfig_t& config, const void* kernel, Call call);
// Of what is asked of kernels from now on (`let_share`, `run`), number `first` and all until `end`
// find no memory.
void refuse_memory(int first, int end);

// Work of a stream. What takes its time is called again and again until it says that it is done.
void queue(cudaStream_t stream, std::function<void()> work);
void queue_lasting(cudaStream_t stream, std::function<bool()> work);

// While one lives, the memory of the device can be read and written: for the bodies of libraries'
// functions.
class Access {
 public:
  Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
  ~Access();
};

// All threads of the block, or lanes of the warp, that have not returned wait for each other here.
void meet_in_block(const std::source_location& place);
void meet_in_warp(const std::source_location& place);
unsigned lane();

// What lanes give each other.
struct Parcel {
  std::array<std::byte, 32> bytes;
};
// All lanes of the warp that have not returned have given theirs when it returns: as with a GPU's
// registers, what they did to memory before is in no order by that.
void give(const Parcel& parcel, const std::source_location& place);
// What a lane of this thread's warp gave last.
const Parcel& given(unsigned lane);

// Nothing of it is the kernel's memory, for the thread sanitizer to look at.
#define LONGSPAN_REGISTERS __attribute__((no_sanitize("thread")))

template <typename T>
LONGSPAN_REGISTERS void give_value(const T& value, const std::source_location& place) {
  static_assert(sizeof(T) <= sizeof(Parcel) && std::is_trivially_copyable_v<T>);
  Parcel parcel = {};
  std::memcpy(parcel.bytes.data(), &value, sizeof(T));
  give(parcel, place);
}
template <typename T>
LONGSPAN_REGISTERS T given_value(unsigned lane) {
  T value;
  std::memcpy(&value, given(lane).bytes.data(), sizeof(T));
  return value;
}

[[noreturn]] void fail(const char* what, const std::source_location& place);
// Fails where 16 bytes are not of the block's shared memory, or not aligned to 16.
void expect_shared_piece(const void* piece, const std::source_location& place);

}  // namespace emulated_cuda

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <typename F>
cudaError_t cudaFuncSetAttribute(F* kernel, cudaFuncAttribute, int bytes) {
  return emulated_cuda::let_share(reinterpret_cast<const void*>(kernel),
                                  static_cast<std::size_t>(bytes));
}

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const auto copies =
      std::make_shared<const std::tuple<Parameters...>>(std::forward<Arguments>(arguments)...);
  emulated_cuda::Call call;
  call.of_thread = [kernel, copies] { std::apply(kernel, *copies); };
  std::apply([&](const auto&... each) { call.arguments = {&each...}; }, *copies);
  return emulated_cuda::run(*config, reinterpret_cast<const void*>(kernel), std::move(call));
}

inline void __syncthreads(std::source_location place = std::source_location::current()) {
  emulated_cuda::meet_in_block(place);
}
inline void __syncwarp(unsigned = ~0u,
                       std::source_location place = std::source_location::current()) {
  emulated_cuda::meet_in_warp(place);
}

inline void expect_whole_warp(unsigned mask, const std::source_location& place) {
  if (mask != ~0u) emulated_cuda::fail("a warp exchanges with all of its lanes", place);
}
template <typename T>
T __shfl_sync(unsigned mask,
              T value,
              int from,
              std::source_location place = std::source_location::current()) {
  expect_whole_warp(mask, place);
  emulated_cuda::give_value(value, place);
  return emulated_cuda::given_value<T>(static_cast<unsigned>(from) % 32);
}
template <typename T>
T __shfl_xor_sync(unsigned mask,
                  T value,
                  int lanes,
                  std::source_location place = std::source_location::current()) {
  const unsigned from = emulated_cuda::lane() ^ static_cast<unsigned>(lanes);
  return __shfl_sync(mask, value, static_cast<int>(from), place);
}
inline unsigned __ballot_sync(unsigned mask,
                              int vote,
                              std::source_location place = std::source_location::current()) {
  expect_whole_warp(mask, place);
  emulated_cuda::give_value(vote != 0, place);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    votes |= static_cast<unsigned>(emulated_cuda::given_value<bool>(lane)) << lane;
  return votes;
}

template <typename T>
T atomicAdd(T* to, T value) {
  return std::atomic_ref<T>(*to).fetch_add(value);
}
