// Memory of the emulated device, and copies.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "tests/support/emulated_cuda/counts.h"
#include "tests/support/emulated_cuda/cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace emulated_cuda {
namespace {

constexpr std::size_t page = 4096;
// Bytes. LONGSPAN_EMULATED_GPU_BYTES; default: 1 GiB.
const std::size_t capacity = [] {
  const char* const bytes = std::getenv("LONGSPAN_EMULATED_GPU_BYTES");
  return bytes == nullptr ? std::size_t{1} << 30 : std::strtoull(bytes, nullptr, 10);
}();
// Larger than memory, because only a block of the same size reuses addresses.
const std::size_t addresses = 64 * capacity;
constexpr unsigned char poison = 0xff;

// Only the address sanitizer checks the exact end of a block.
void mark_free([[maybe_unused]] std::byte* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(begin, bytes);
#endif
}
void mark_used([[maybe_unused]] std::byte* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
#endif
}

// One range of addresses, so that opening and closing it is one call. Blocks consist of pages, with
// one page between them.
class Memory {
 public:
  std::byte* allocate(std::size_t bytes) {
    const std::size_t size = (bytes + page - 1) / page * page + page;
    const std::lock_guard lock(mutex_);
    if (used_ + size > capacity) return nullptr;
    std::byte* block = nullptr;
    if (auto& blocks = free_[size]; !blocks.empty()) {
      block = blocks.back();
      blocks.pop_back();
    } else if (end_ + size <= addresses) {
      block = base() + end_;
      end_ += size;
    } else {
      return nullptr;
    }
    live_[block] = size;
    used_ += size;
    protect(block, size, PROT_READ | PROT_WRITE);
    mark_free(block, size);
    mark_used(block, bytes);
    std::memset(block, poison, bytes);
    if (users_ == 0) protect(block, size, PROT_NONE);
    return block;
  }

  bool free(std::byte* block) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(block);
    if (found == live_.end()) return false;
    madvise(block, found->second, MADV_DONTNEED);
    mark_free(block, found->second);
    free_[found->second].push_back(block);
    used_ -= found->second;
    live_.erase(found);
    return true;
  }

  std::size_t free_bytes() {
    const std::lock_guard lock(mutex_);
    return capacity - used_;
  }

  bool holds(const void* address) {
    const auto* const byte = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex_);
    return byte >= base() && byte < base() + addresses;
  }

  void open() {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0) protect(base(), end_, PROT_READ | PROT_WRITE);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) protect(base(), end_, PROT_NONE);
  }

 private:
  std::byte* base() {
    if (base_ == nullptr) {
      void* const range =
          mmap(nullptr, addresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) std::abort();
      base_ = static_cast<std::byte*>(range);
    }
    return base_;
  }
  static void protect(std::byte* begin, std::size_t bytes, int how) {
    if (bytes > 0 && mprotect(begin, bytes, how) != 0) std::abort();
  }

  std::mutex mutex_;
  std::byte* base_ = nullptr;
  std::size_t end_ = 0;
  std::size_t used_ = 0;
  std::map<std::byte*, std::size_t> live_;
  std::map<std::size_t, std::vector<std::byte*>> free_;
  // Current users: running kernels and copies and, if a test requests it, the host.
  int users_ = std::getenv("LONGSPAN_EMULATED_GPU_VISIBLE") == nullptr ? 0 : 1;
};

// Never destroyed: the destructor of a device may still free blocks.
Memory& memory() {
  static Memory* const the_memory = new Memory;
  return *the_memory;
}

// Pinned blocks of host memory, for asynchronous copies.
class Pinned {
 public:
  void add(void* block, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<std::byte*>(block)] = bytes;
  }
  void remove(void* block) {
    const std::lock_guard lock(mutex_);
    blocks_.erase(static_cast<std::byte*>(block));
  }
  bool holds(const void* address) {
    const auto* const byte = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex_);
    const auto after = std::ranges::find_if(
        blocks_, [&](const auto& block) { return byte < block.first + block.second; });
    return after != blocks_.end() && byte >= after->first;
  }

 private:
  std::mutex mutex_;
  std::map<std::byte*, std::size_t> blocks_;
};

Pinned& pinned() {
  static Pinned* const the_blocks = new Pinned;
  return *the_blocks;
}

void count_copy(const void* to, const void* from) {
  const bool there = memory().holds(to), back = memory().holds(from);
  if (there == back) return;
  count(there ? &Counts::copies_to_device : &Counts::copies_to_host);
  if (!pinned().holds(there ? from : to)) count(&Counts::waits);
}

// Counts of all threads.
std::mutex counts_mutex;
Counts counts_so_far;

}  // namespace

Counts counts() {
  const std::lock_guard lock(counts_mutex);
  return counts_so_far;
}

void count(int Counts::*which) {
  const std::lock_guard lock(counts_mutex);
  ++(counts_so_far.*which);
}

Access::Access() { memory().open(); }
Access::~Access() { memory().close(); }

}  // namespace emulated_cuda

using emulated_cuda::count;
using emulated_cuda::Counts;
using emulated_cuda::memory;
using emulated_cuda::pinned;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNotReady:
      return "device not ready";
  }
  return "unknown error";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
// LONGSPAN_EMULATED_OLD_DRIVER: the driver is older than the runtime.
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (std::getenv("LONGSPAN_EMULATED_OLD_DRIVER") != nullptr) return cudaErrorInsufficientDriver;
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(emulated_cuda::max_shared_bytes);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 * 1024;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 1;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const shared = std::getenv("LONGSPAN_EMULATED_GPUS");
  const int number = rank == nullptr ? 0 : std::atoi(rank);
  std::snprintf(text,
                static_cast<std::size_t>(length),
                "0000:%02x:00.0",
                shared == nullptr ? number : number % std::atoi(shared));
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** block, std::size_t bytes) {
  count(&Counts::blocks);
  *block = memory().allocate(bytes);
  return *block != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* block) {
  count(&Counts::blocks);
  const bool known = block == nullptr || memory().free(static_cast<std::byte*>(block));
  return known ? cudaSuccess : cudaErrorInvalidValue;
}
// LONGSPAN_EMULATED_GPU_FREE: reported free bytes, as if another process then used the rest.
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  const char* const reported = std::getenv("LONGSPAN_EMULATED_GPU_FREE");
  *free = reported == nullptr ? memory().free_bytes() : std::strtoull(reported, nullptr, 10);
  *all = emulated_cuda::capacity;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** block, std::size_t bytes) {
  count(&Counts::blocks);
  *block = std::aligned_alloc(
      emulated_cuda::page,
      (bytes + emulated_cuda::page - 1) / emulated_cuda::page * emulated_cuda::page);
  if (*block == nullptr) return cudaErrorMemoryAllocation;
  pinned().add(*block, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* block) {
  count(&Counts::blocks);
  pinned().remove(block);
  std::free(block);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  emulated_cuda::count_copy(to, from);
  emulated_cuda::queue(stream, [=] {
    const emulated_cuda::Access access;
    std::memmove(to, from, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  emulated_cuda::queue(stream, [=] {
    const emulated_cuda::Access access;
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}
