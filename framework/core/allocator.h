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

namespace longspan {

// What memory is used for. Bytes are counted by tag.
enum class MemoryTag : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,
  recurrent_state,  // what a model carries from one segment to the next
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
  std::int64_t reserved = 0;  // live and cached: what the allocator holds from the system
  double allocated = 0;       // bytes of all blocks ever handed out
};

// What blocks are made of: memory; addresses whose pages take memory when they are written (a block
// of at most a page begins as zeros); memory of a GPU; or of the host, pinned for copies to and
// from a GPU.
enum class AllocatorKind : std::uint8_t { memory, address_space, gpu, pinned };

// Thread-safe. Blocks are aligned to 64 bytes, those of 4 MiB and more to 2 MiB with huge pages
// asked for. A freed block is kept for the next request of its size class, or lent to one that
// needs at least half of it, while at most an eighth of the peak is lent beyond need. What stays
// (weights, gradients, the optimizer, memory) gets no such block, and all but memory has classes of
// its very size. Blocks go back to the system where more than one and a half times the peak would
// be held from it, and where it has no memory left: as many as make room.
class Allocator {
 public:
  explicit Allocator(AllocatorKind backing = AllocatorKind::memory, int gpu = 0)
      : backing_(backing), gpu_(gpu) {}
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator();

  // Throws Failure with the table of bytes by tag when the system has no memory left,
  // OutOfAddressSpace, a ConfigurationError, when it has no addresses left.
  void* allocate(std::size_t bytes, MemoryTag tag);
  void free(void* block, std::size_t bytes, MemoryTag tag) noexcept;
  AllocatorKind backing() const { return backing_; }
  int gpu() const { return gpu_; }
  // Gives cached blocks back to the system.
  void trim() noexcept;
  MemoryReport report() const;
  // Sets every peak to what is live now.
  void reset_peak();

 private:
  void* from_system(std::size_t bytes) noexcept;
  void* next_addresses(std::size_t bytes) noexcept;
  void to_system(void* block, std::size_t bytes) const noexcept;
  void* cached_block(std::size_t size, MemoryTag tag);
  void trim_locked() noexcept;
  bool give_back(std::size_t bytes) noexcept;

  const AllocatorKind backing_;
  const int gpu_;

  // Addresses come from ranges that are used up in order: none is handed out twice.
  std::vector<std::span<std::byte>> ranges_;
  std::size_t range_used_ = 0;  // of the last

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> cached_;  // by size
  std::unordered_map<void*, std::size_t> lent_;       // what is larger than was asked for: its size
  MemoryReport report_;
};

// A block that goes back to its allocator with this.
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

}  // namespace longspan
