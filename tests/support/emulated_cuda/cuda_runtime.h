// The part of the CUDA runtime that Longspan's kernels use, on the host. With this directory before
// CUDA's in the include path, a .cu file compiles as plain C++. The blocks of a grid run one after
// another. The threads of a block are fibers that yield where they wait for each other, in a fixed
// order. The sanitizers support fibers: the thread sanitizer reports a missing __syncthreads, and
// the address sanitizer accesses outside the block's shared memory. Shared memory initially
// contains NaN.
//
// Checks that a GPU does not have: threads wait for each other at the same line and not forever.
// A warp exchanges values with all of its lanes. Accesses of 16 bytes are to the block's shared
// memory.
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

// One device with its own memory, accessible only while a kernel or a copy runs. At other times an
// access of the host is a segmentation fault. New blocks contain NaN.
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
// One device per rank of the job; each rank has only its own.
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device);
cudaError_t cudaMalloc(void** block, std::size_t bytes);
cudaError_t cudaFree(void* block);
cudaError_t cudaMallocHost(void** block, std::size_t bytes);
cudaError_t cudaFreeHost(void* block);

// Work of a stream runs at once, unless earlier work waits for an event of another stream or for a
// library. Such work advances only when the host queries a stream or an event, or waits.
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

// Maximum shared memory per block on every supported GPU.
inline constexpr std::size_t max_shared_bytes = 160 * 1024;

// Sets the limit of shared memory per block of a kernel; default: 48 KB.
cudaError_t let_share(const void* kernel, std::size_t bytes);
// The function of a thread, and addresses of its arguments, valid during the lifetime.
struct Call {
  std::function<void()> of_thread;
  std::vector<const void*> arguments;
};
cudaError_t run(const cudaLaunchConfig_t& config, const void* kernel, Call call);
// The calls of `let_share` and `run` with numbers first <= i < end, counted from now, fail: out of
// memory.
void refuse_memory(int first, int end);

// Queues work. Lasting work is called until it returns true.
void queue(cudaStream_t stream, std::function<void()> work);
void queue_lasting(cudaStream_t stream, std::function<bool()> work);

// Makes device memory accessible during its lifetime, for the implementations of library functions.
class Access {
 public:
  Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
  ~Access();
};

// Waits for all threads of the block, or lanes of the warp, that have not returned.
void meet_in_block(const std::source_location& place);
void meet_in_warp(const std::source_location& place);
unsigned lane();

// A value that lanes exchange.
struct Parcel {
  std::array<std::byte, 32> bytes;
};
// Sends a value to the warp; returns when all lanes that have not returned have sent theirs. As for
// registers of a GPU, this does not order accesses of memory.
void give(const Parcel& parcel, const std::source_location& place);
// Returns the last value from a lane of this thread's warp.
const Parcel& given(unsigned lane);

// Excludes a function from the thread sanitizer: it does not access memory of the kernel.
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
// Fails unless 16 bytes are in the block's shared memory and aligned to 16.
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
