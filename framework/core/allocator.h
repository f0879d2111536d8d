// A caching allocator that counts bytes by tag.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/core/error.h"

namespace longspan {

// Category of memory use. Bytes are counted by tag.
enum class MemoryTag : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,
  recurrent_state,  // a model's recurrent state between segments
  workspace,        // scratch of a kernel, a collective or the loader
};
inline constexpr std::size_t memory_tags = 6;
std::string_view name_of(MemoryTag tag);

struct MemoryCount {
  std::int64_t live = 0;
  std::int64_t peak = 0;
};

struct MemoryReport {
  std::array<MemoryCount, memory_tags> by_tag;
  MemoryCount total;          // the peak of the sum, not the sum of the peaks
  std::int64_t reserved = 0;  // live and cached bytes held from the system
  double allocated = 0;       // cumulative bytes of all allocations
};

// The backing of blocks: memory; addresses whose pages are committed on first write (a block of at
// most a page starts as zeros); GPU memory; or pinned host memory for GPU copies.
enum class AllocatorKind : std::uint8_t { memory, address_space, gpu, pinned };

// Thread-safe. Blocks are aligned to 64 bytes; those of 4 MiB and more to 2 MiB, with huge pages
// requested. A freed block is cached for its size class, or lent to a request of at least half its
// size. Lending is limited to an eighth of the peak beyond the requested sizes. Long-lived tags
// (weights, gradients, optimizer, recurrent state) get no lent block, and all backings but memory
// have exact size classes. Cached blocks are returned to the system when more than 1.5 times the
// peak would be held. When the system is out of memory, as many are returned as the request needs.
class Allocator {
 public:
  explicit Allocator(AllocatorKind backing = AllocatorKind::memory, int gpu = 0)
      : backing_(backing), gpu_(gpu) {}
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator();

  // Throws Failure with the table of bytes by tag when the system has no memory left. Throws
  // OutOfAddressSpace, a ConfigurationError, when it has no addresses left.
  void* allocate(std::size_t bytes, MemoryTag tag);
  void free(void* block, std::size_t bytes, MemoryTag tag) noexcept;
  AllocatorKind backing() const { return backing_; }
  int gpu() const { return gpu_; }
  // Returns cached blocks to the system.
  void trim() noexcept;
  MemoryReport report() const;
  // Resets every peak to the live bytes.
  void reset_peak();

 private:
  void* from_system(std::size_t bytes) noexcept;
  void* next_addresses(std::size_t bytes) noexcept;
  void to_system(void* block, std::size_t bytes) const noexcept;
  void* cached_block(std::size_t size, MemoryTag tag);
  void trim_locked() noexcept;
  bool release_cached(std::size_t bytes) noexcept;

  const AllocatorKind backing_;
  const int gpu_;

  // Addresses are taken from these ranges in order; none is returned twice.
  std::vector<std::span<std::byte>> ranges_;
  std::size_t range_used_ = 0;  // bytes used of the last range

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> cached_;  // by size
  // Actual sizes of blocks larger than requested.
  std::unordered_map<void*, std::size_t> lent_;
  MemoryReport report_;
};

// RAII: frees the block on destruction.
class ScopedAllocation {
 public:
  ScopedAllocation(Allocator& allocator, std::size_t bytes, MemoryTag tag)
      : allocator_(allocator),
        bytes_(bytes),
        tag_(tag),
        begin_(static_cast<std::byte*>(allocator.allocate(bytes, tag))) {}
  ScopedAllocation(const ScopedAllocation&) = delete;
  ScopedAllocation& operator=(const ScopedAllocation&) = delete;
  ~ScopedAllocation() { allocator_.free(begin_, bytes_, tag_); }

  std::byte* begin() const { return begin_; }

 private:
  Allocator& allocator_;
  const std::size_t bytes_;
  const MemoryTag tag_;
  std::byte* const begin_;
};

// Errors of an allocator when the system is out of memory or addresses.

class OutOfMemory : public Failure {
 public:
  // `backing`: of the allocator, which held `held` bytes when the request failed.
  OutOfMemory(const std::string& sentence, AllocatorKind backing, double held)
      : Failure("{}", sentence), backing_(backing), held_(held) {}
  AllocatorKind backing() const { return backing_; }
  double held() const { return held_; }

 private:
  AllocatorKind backing_;
  double held_;
};

// Thrown by a plan, which uses addresses but no memory: the run exceeds the address space of a
// process, whatever the machine's memory.
class OutOfAddressSpace : public ConfigurationError {
 public:
  // `report`: all bytes of the plan so far, including the failed request.
  OutOfAddressSpace(const std::string& sentence, const MemoryReport& report)
      : ConfigurationError("{}", sentence), report_(report) {}
  const MemoryReport& report() const { return report_; }

 private:
  MemoryReport report_;
};

}  // namespace longspan
