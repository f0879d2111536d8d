#include <cuda_runtime.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define LONGSPAN_WITH_NVTX
#endif

#include "framework/core/cuda/status.h"
#include "framework/core/gpu.h"

namespace longspan::gpu {
namespace {

// Counts the GPUs, or returns the error.
cudaError_t count_into(int& count) {
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    count = 0;
    static_cast<void>(cudaGetLastError());  // clears the error for the next call
  }
  return status;
}

// Returns the block, or nullptr where the call failed.
void* block_of(cudaError_t status, void* block) {
  if (status == cudaSuccess) return block;
  static_cast<void>(cudaGetLastError());
  return nullptr;
}

}  // namespace

std::vector<int> usable() {
  constexpr int oldest = 8, min_shared_bytes = 160 * 1024;
  int count = 0;
  count_into(count);
  std::vector<int> result;
  for (int gpu = 0; gpu < count; ++gpu)
    if (attribute(cudaDevAttrComputeCapabilityMajor, gpu) >= oldest &&
        attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu) >= min_shared_bytes)
      result.push_back(gpu);
  return result;
}

std::string unavailable_reason() {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "this machine has no CUDA driver";
  const cudaError_t status = count_into(count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return "this machine has " + std::to_string(usable().size()) +
         " with compute capability 8.0 or newer and 160 KiB of shared memory per block";
}

std::string unusable_reason() {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "";
  return count_into(count) == cudaErrorNoDevice || !usable().empty() ? "" : unavailable_reason();
}

std::string pci_bus_id(int gpu) {
  char text[32] = "";
  require_success(cudaDeviceGetPCIBusId(text, sizeof text, gpu), "querying a PCI bus id");
  return text;
}

void select(int gpu) { require_success(cudaSetDevice(gpu), "selecting a GPU"); }

CUstream_st* make_stream(int gpu, bool first) {
  select(gpu);
  int last_priority = 0, first_priority = 0;
  require_success(cudaDeviceGetStreamPriorityRange(&last_priority, &first_priority),
                  "querying stream priorities");
  cudaStream_t stream = nullptr;
  require_success(cudaStreamCreateWithPriority(
                      &stream, cudaStreamNonBlocking, first ? first_priority : last_priority),
                  "creating a stream");
  return stream;
}

void destroy_stream(int gpu, CUstream_st* stream) noexcept {
  cudaSetDevice(gpu);
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
}

void wait(CUstream_st* stream) {
  require_success(cudaStreamSynchronize(stream), "synchronizing a stream");
}

namespace {

// Returns whether the queried work is complete.
bool happened(cudaError_t status, const char* what) {
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  require_success(status, what);
  return true;
}

}  // namespace

bool done(CUstream_st* stream) { return happened(cudaStreamQuery(stream), "running on a GPU"); }

Event::Event(CUstream_st* stream) {
  require_success(cudaGetDevice(&gpu_), "querying the current GPU");
  require_success(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
  require_success(cudaEventRecord(event_, stream), "recording an event");
}

// A thread without a selected GPU would otherwise initialize the first one.
Event::~Event() {
  cudaSetDevice(gpu_);
  cudaEventDestroy(event_);
}

bool Event::is_complete() const { return happened(cudaEventQuery(event_), "running on a GPU"); }

void Event::make_stream_wait(CUstream_st* stream) const {
  require_success(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event");
}

MemoryBytes memory_bytes(int gpu) {
  select(gpu);
  MemoryBytes bytes;
  require_success(cudaMemGetInfo(&bytes.free, &bytes.all), "querying GPU memory");
  return bytes;
}

void* allocate(int gpu, std::size_t bytes) noexcept {
  void* block = nullptr;
  if (cudaSetDevice(gpu) != cudaSuccess) return nullptr;
  const cudaError_t status = cudaMalloc(&block, bytes);
  return block_of(status, block);
}

void free(int gpu, void* block) noexcept {
  cudaSetDevice(gpu);
  cudaFree(block);
}

void* allocate_pinned(int gpu, std::size_t bytes) noexcept {
  void* block = nullptr;
  if (cudaSetDevice(gpu) != cudaSuccess) return nullptr;
  const cudaError_t status = cudaMallocHost(&block, bytes);
  return block_of(status, block);
}

void free_pinned(int gpu, void* block) noexcept {
  cudaSetDevice(gpu);
  cudaFreeHost(block);
}

void copy(void* to, const void* from, std::size_t bytes, CUstream_st* stream) {
  require_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying");
}

void zero(void* block, std::size_t bytes, CUstream_st* stream) {
  require_success(cudaMemsetAsync(block, 0, bytes, stream), "zeroing memory");
}

#ifdef LONGSPAN_WITH_NVTX
void push_nvtx_range(const char* name) noexcept { nvtxRangePushA(name); }
void pop_nvtx_range() noexcept { nvtxRangePop(); }
#else
void push_nvtx_range(const char*) noexcept {}
void pop_nvtx_range() noexcept {}
#endif

}  // namespace longspan::gpu
