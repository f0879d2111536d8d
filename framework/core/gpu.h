// What the library asks of CUDA's runtime outside of kernels. The bodies are in cuda/gpu.cu; where
// there is no toolkit, in no_gpu.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

struct CUevent_st;
struct CUstream_st;

namespace longspan::gpu {

// The GPUs that this process can use, by their numbers: of those that the driver shows the ones
// that have what kernels are compiled for, compute capability 8.0 or newer and 160 KiB of shared
// memory for a block. None without a driver.
std::vector<int> usable();
// Why there is none, or not as many as wanted, as a clause.
std::string unavailable_reason();

// Why GPUs of this machine cannot be used, as a clause; empty where they can or there are none.
std::string unusable_reason();

// Its place on the bus: GPUs of one machine differ in it, however they are numbered.
std::string pci_bus_id(int gpu);

// The GPU that the calling thread's next calls are meant for.
void select(int gpu);

// Of what is queued on several streams the GPU begins with what is on one that is `first`.
CUstream_st* make_stream(int gpu, bool first = false);
// Waits for it first.
void destroy_stream(int gpu, CUstream_st* stream) noexcept;
void wait(CUstream_st* stream);
// Whether all that was queued there is done.
bool done(CUstream_st* stream);

// A place in the work of a stream of the selected GPU: behind what is queued there when it is made.
class Event {
 public:
  explicit Event(CUstream_st* stream);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  // Whether the stream has come past it.
  bool is_complete() const;
  // What is queued on `stream` from here on waits for it; the host does not.
  void make_stream_wait(CUstream_st* stream) const;

 private:
  int gpu_ = 0;
  CUevent_st* event_ = nullptr;
};

// Of its memory, by whomever the rest is used.
struct MemoryBytes {
  std::size_t free = 0;
  std::size_t all = 0;
};
MemoryBytes memory_bytes(int gpu);

// nullptr where there is no memory left.
void* allocate(int gpu, std::size_t bytes) noexcept;
void free(int gpu, void* block) noexcept;
void* allocate_pinned(int gpu, std::size_t bytes) noexcept;
void free_pinned(int gpu, void* block) noexcept;

// Queued on the stream; either side may be memory of the host.
void copy(void* to, const void* from, std::size_t bytes, CUstream_st* stream);
void zero(void* block, std::size_t bytes, CUstream_st* stream);

// A range of the calling thread, which its maker's profilers show (NVTX). Ranges lie within each
// other; the innermost ends.
void push_nvtx_range(const char* name) noexcept;
void pop_nvtx_range() noexcept;

}  // namespace longspan::gpu
