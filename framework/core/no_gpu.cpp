// Implementation of gpu.h without the CUDA toolkit.
#include "framework/core/error.h"
#include "framework/core/gpu.h"

namespace longspan::gpu {
namespace {

[[noreturn]] void refuse() { throw Failure("{}", unavailable_reason()); }

}  // namespace

std::vector<int> usable() { return {}; }
std::string unavailable_reason() { return "this program was built without a CUDA toolkit"; }
std::string unusable_reason() { return ""; }
std::string pci_bus_id(int) { refuse(); }
void select(int) { refuse(); }
CUstream_st* make_stream(int, bool) { refuse(); }
void destroy_stream(int, CUstream_st*) noexcept {}
void wait(CUstream_st*) { refuse(); }
bool done(CUstream_st*) { refuse(); }
Event::Event(CUstream_st*) { refuse(); }
Event::~Event() = default;
bool Event::is_complete() const { refuse(); }
void Event::make_stream_wait(CUstream_st*) const { refuse(); }
MemoryBytes memory_bytes(int) { refuse(); }
void* allocate(int, std::size_t) noexcept { return nullptr; }
void free(int, void*) noexcept {}
void* allocate_pinned(int, std::size_t) noexcept { return nullptr; }
void free_pinned(int, void*) noexcept {}
void copy(void*, const void*, std::size_t, CUstream_st*) { refuse(); }
void zero(void*, std::size_t, CUstream_st*) { refuse(); }
void push_nvtx_range(const char*) noexcept {}
void pop_nvtx_range() noexcept {}

}  // namespace longspan::gpu
