// Linked into tests (--wrap). With LONGSPAN_TEST_DEVICE=cuda, GPU memory is pinned host memory that
// initially contains NaN, and copies are synchronous. So CPU tests, which read tensors at any time,
// can check the kernels of a GPU.
#include <cuda_runtime.h>

#include <cstring>
#include <mutex>
#include <set>

#include "tests/support/test_device.h"

namespace {

// Pinned blocks. Never destroyed: devices may outlive it.
std::set<void*>& blocks() {
  static auto* const all = new std::set<void*>;
  return *all;
}
std::mutex& lock() {
  static auto* const the_lock = new std::mutex;
  return *the_lock;
}

}  // namespace

extern "C" {

cudaError_t __real_cudaMalloc(void** block, std::size_t bytes);
cudaError_t __wrap_cudaMalloc(void** block, std::size_t bytes) {
  if (!longspan::testing::tests_run_on_gpu()) return __real_cudaMalloc(block, bytes);
  const cudaError_t status = cudaMallocHost(block, bytes);
  if (status != cudaSuccess) return status;
  std::memset(*block, 0xff, bytes);
  const std::lock_guard guard(lock());
  blocks().insert(*block);
  return cudaSuccess;
}

cudaError_t __real_cudaFree(void* block);
cudaError_t __wrap_cudaFree(void* block) {
  {
    const std::lock_guard guard(lock());
    if (blocks().erase(block) == 0) return __real_cudaFree(block);
  }
  return cudaFreeHost(block);
}

cudaError_t __real_cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const cudaError_t status = __real_cudaMemcpyAsync(to, from, bytes, kind, stream);
  return status == cudaSuccess ? cudaStreamSynchronize(stream) : status;
}

cudaError_t __real_cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const cudaError_t status = __real_cudaMemsetAsync(to, value, bytes, stream);
  return status == cudaSuccess ? cudaStreamSynchronize(stream) : status;
}

}  // extern "C"
