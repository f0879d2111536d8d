// Wrappers of the CUDA runtime for code outside kernels. Implemented in cuda/gpu.cu; without the
// toolkit, in no_gpu.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

struct CUevent_st;
struct CUstream_st;

namespace longspan::gpu {

// Returns the indices of the usable GPUs. Usable: visible to the driver, compute capability 8.0 or
// newer, 160 KiB of shared memory per block. Empty without a driver.
std::vector<int> usable();
// Returns, as a clause, why there is no GPU or fewer than requested.
std::string unavailable_reason();

// Returns, as a clause, why GPUs of this machine are unusable; empty where they are usable or
// absent.
std::string unusable_reason();

// Returns the PCI bus ID, unique among a machine's GPUs however they are numbered.
std::string pci_bus_id(int gpu);

// Sets the current GPU of the calling thread.
void select(int gpu);

// `first`: the GPU schedules this stream's work with high priority.
CUstream_st* make_stream(int gpu, bool first = false);
// Waits for the stream before destroying it.
void destroy_stream(int gpu, CUstream_st* stream) noexcept;
void wait(CUstream_st* stream);
// Returns whether all queued work is done.
bool done(CUstream_st* stream);

// A point in the work of a stream of the current GPU: after all work queued at construction.
class Event {
 public:
  explicit Event(CUstream_st* stream);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  // Returns whether the stream has passed it.
  bool is_complete() const;
  // Makes work queued on `stream` from here on wait for it, without blocking the host.
  void make_stream_wait(CUstream_st* stream) const;

 private:
  int gpu_ = 0;
  CUevent_st* event_ = nullptr;
};

// GPU memory; what is not free may be used by any process.
struct MemoryBytes {
  std::size_t free = 0;
  std::size_t all = 0;
};
MemoryBytes memory_bytes(int gpu);

// Returns nullptr when out of memory.
void* allocate(int gpu, std::size_t bytes) noexcept;
void free(int gpu, void* block) noexcept;
void* allocate_pinned(int gpu, std::size_t bytes) noexcept;
void free_pinned(int gpu, void* block) noexcept;

// Queued on the stream; either side may be host memory.
void copy(void* to, const void* from, std::size_t bytes, CUstream_st* stream);
void zero(void* block, std::size_t bytes, CUstream_st* stream);

// A named range of the calling thread for NVIDIA profilers (NVTX). Ranges are nested; the innermost
// ends.
void push_nvtx_range(const char* name) noexcept;
void pop_nvtx_range() noexcept;

}  // namespace longspan::gpu
