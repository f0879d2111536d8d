#include "framework/core/allocator.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "framework/core/format.h"
#include "framework/core/gpu.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace longspan {
namespace {

constexpr std::size_t small_alignment = 64;
constexpr std::size_t zeroed_block = 4096;
constexpr std::size_t usual_range = std::size_t{1} << 38;
constexpr std::int64_t lent_divisor = 8;  // a fraction 1/8 of the peak
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t mapped_block = std::numeric_limits<std::size_t>::max();
#else
constexpr std::size_t mapped_block = std::size_t{1} << 20;
#endif
constexpr std::size_t large_block = std::size_t{4} << 20;
constexpr std::size_t large_alignment = std::size_t{2} << 20;

std::size_t rounded_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

std::size_t system_page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// Separate pages, which are returned to the system on munmap, independently of the heap.
void* map_aligned(std::size_t bytes, std::size_t alignment) {
  const std::size_t all = bytes + alignment - system_page();
  void* const begin =
      mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = rounded_up(address, alignment) - address;
  const std::size_t after = all - before - bytes;
  std::byte* const block = static_cast<std::byte*>(begin) + before;
  if (before > 0) munmap(begin, before);
  if (after > 0) munmap(block + bytes, after);
  return block;
}

// Blocks of a MiB and more have separate pages. A freed one within the heap would seldom return to
// the system, and varying sizes would grow the heap to several times its use. AddressSanitizer
// checks only the heap's.
void* memory_from_system(std::size_t bytes) {
  const bool large = bytes >= large_block;
  if (bytes < mapped_block) {
    const std::size_t alignment = large ? large_alignment : small_alignment;
    return std::aligned_alloc(alignment, rounded_up(bytes, alignment));
  }
  void* const block =
      map_aligned(rounded_up(bytes, system_page()), large ? large_alignment : system_page());
  if (large && block != nullptr) madvise(block, bytes, MADV_HUGEPAGE);
  return block;
}

void memory_to_system(void* block, std::size_t bytes) {
  if (bytes < mapped_block) return std::free(block);
  const std::size_t size = rounded_up(bytes, system_page());
  // munmap fails when the process has too many mappings; the addresses then stay reserved.
  if (munmap(block, size) != 0) madvise(block, size, MADV_DONTNEED);
}

// For AddressSanitizer: cached blocks, and lent bytes beyond the request, are poisoned.
void may_be_used([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(block, bytes);
#endif
}
void may_not_be_used([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(block, bytes);
#endif
}

// Reserves addresses whose pages are committed on first write; empty on failure.
std::span<std::byte> addresses_from_system(std::size_t bytes) {
  void* const block = mmap(
      nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) return {};
  return {static_cast<std::byte*>(block), bytes};
}

bool belongs_to_weights(MemoryTag tag) {
  return tag == MemoryTag::weights || tag == MemoryTag::gradients || tag == MemoryTag::optimizer;
}

bool stays(MemoryTag tag) { return belongs_to_weights(tag) || tag == MemoryTag::recurrent_state; }

// Eight classes per power of two: at most an eighth of a block is wasted. Large blocks are
// multiples of a huge page. Long-lived tags use exact sizes, since the same few sizes recur in
// every step.
std::size_t block_size(std::size_t bytes, MemoryTag tag) {
  bytes = std::max(bytes, small_alignment);
  if (belongs_to_weights(tag)) return rounded_up(bytes, small_alignment);
  const std::size_t size = rounded_up(bytes, std::max(std::bit_floor(bytes) / 8, small_alignment));
  return size < large_block ? size : rounded_up(size, large_alignment);
}

void count(MemoryCount& count, std::int64_t bytes) {
  count.live += bytes;
  count.peak = std::max(count.peak, count.live);
}

// Returns the user's address space limit for a message; "" without one.
std::string address_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(" (ulimit -v allows {})", format_bytes(static_cast<double>(limit.rlim_cur)));
}

[[noreturn]] void throw_out_of_addresses(MemoryReport report, std::size_t bytes, MemoryTag tag) {
  const auto size = static_cast<std::int64_t>(bytes);
  report.reserved = std::max(report.reserved, report.total.live) + size;
  count(report.by_tag[static_cast<std::size_t>(tag)], size);
  count(report.total, size);
  throw OutOfAddressSpace(
      fmt::format(
          "a rank requires more than {}, which exceeds the address space of a process{}; use more "
          "ranks, shorter sequences, a smaller batch or a smaller model.hidden_size",
          format_bytes(static_cast<double>(report.reserved)),
          address_limit()),
      report);
}

[[noreturn]] void refuse(AllocatorKind backing,
                         const MemoryReport& report,
                         std::size_t bytes,
                         MemoryTag tag) {
  if (backing == AllocatorKind::address_space) throw_out_of_addresses(report, bytes, tag);
  std::string table;
  for (std::size_t i = 0; i < memory_tags; ++i)
    if (const std::int64_t live = report.by_tag[i].live; live > 0)
      table += fmt::format("{}{} {}",
                           table.empty() ? "" : ", ",
                           name_of(static_cast<MemoryTag>(i)),
                           format_bytes(static_cast<double>(live)));
  throw OutOfMemory(fmt::format("out of {}memory: {} requested for {}, already allocated: {}",
                                backing == AllocatorKind::gpu      ? "GPU "
                                : backing == AllocatorKind::pinned ? "pinned "
                                                                   : "",
                                format_bytes(static_cast<double>(bytes)),
                                name_of(tag),
                                table.empty() ? "nothing" : table),
                    backing,
                    static_cast<double>(report.reserved));
}

}  // namespace

std::string_view name_of(MemoryTag tag) {
  constexpr std::string_view names[memory_tags] = {
      "weights", "gradients", "optimizer", "activations", "recurrent state", "workspace"};
  return names[static_cast<std::size_t>(tag)];
}

Allocator::~Allocator() {
  trim();
  for (const std::span<std::byte> range : ranges_) munmap(range.data(), range.size());
}

void* Allocator::next_addresses(std::size_t bytes) noexcept {
  if (ranges_.empty() || ranges_.back().size() - range_used_ < bytes) {
    // A process may have a low address space limit.
    std::size_t size = std::max(bytes, usual_range);
    auto range = addresses_from_system(size);
    while (range.empty() && size > bytes)
      range = addresses_from_system(size = std::max(bytes, size / 2));
    if (range.empty()) return nullptr;
    ranges_.push_back(range);
    range_used_ = 0;
  }
  return ranges_.back().data() + std::exchange(range_used_, range_used_ + bytes);
}

void* Allocator::from_system(std::size_t bytes) noexcept {
  switch (backing_) {
    case AllocatorKind::memory:
      return memory_from_system(bytes);
    case AllocatorKind::address_space:
      return next_addresses(bytes);
    case AllocatorKind::gpu:
      return gpu::allocate(gpu_, bytes);
    case AllocatorKind::pinned:
      return gpu::allocate_pinned(gpu_, bytes);
  }
  return nullptr;
}

void Allocator::to_system(void* block, std::size_t bytes) const noexcept {
  switch (backing_) {
    case AllocatorKind::memory:
      may_be_used(block, bytes);
      return memory_to_system(block, bytes);
    case AllocatorKind::address_space:
      return;  // freed with its range
    case AllocatorKind::gpu:
      return gpu::free(gpu_, block);
    case AllocatorKind::pinned:
      return gpu::free_pinned(gpu_, block);
  }
}

// Returns the smallest suitable cached block, or null.
void* Allocator::cached_block(std::size_t size, MemoryTag tag) {
  auto place = cached_.lower_bound(size);
  while (place != cached_.end() && place->second.empty()) ++place;
  if (place == cached_.end()) return nullptr;
  auto& [held, blocks] = *place;
  if (held > size) {
    if (stays(tag) || held > 2 * size) return nullptr;
    std::int64_t lent = report_.reserved - report_.total.live;  // beyond the requested sizes
    for (const auto& [bytes, kept] : cached_)
      lent -= static_cast<std::int64_t>(bytes * kept.size());
    if (lent + static_cast<std::int64_t>(held - size) > report_.total.peak / lent_divisor)
      return nullptr;
    lent_.emplace(blocks.back(), held);
  }
  void* const block = blocks.back();
  blocks.pop_back();
  return block;
}

void* Allocator::allocate(std::size_t bytes, MemoryTag tag) {
  const std::size_t size = block_size(bytes, tag);
  const auto signed_size = static_cast<std::int64_t>(size);
  const std::lock_guard lock(mutex_);
  void* block = cached_block(size, tag);
  if (block == nullptr) {
    // Growing sizes (a filling Transformer-XL memory) would otherwise leave a cached block in each
    // class.
    const auto peak = std::max(report_.total.peak, report_.total.live + signed_size);
    while (report_.reserved + signed_size > peak + peak / 2 && release_cached(size)) continue;
    block = from_system(size);
    while (block == nullptr && release_cached(size)) block = from_system(size);
    if (block == nullptr) refuse(backing_, report_, bytes, tag);
    report_.reserved += signed_size;
  }
  if (backing_ == AllocatorKind::memory) may_be_used(block, size);
  count(report_.by_tag[static_cast<std::size_t>(tag)], signed_size);
  count(report_.total, signed_size);
  report_.allocated += static_cast<double>(size);
  // A value that the host reads must not come from the block's previous use.
  if (backing_ == AllocatorKind::address_space && size <= zeroed_block) std::memset(block, 0, size);
  return block;
}

void Allocator::free(void* block, std::size_t bytes, MemoryTag tag) noexcept {
  const std::size_t size = block_size(bytes, tag);
  const std::lock_guard lock(mutex_);
  const auto lent = lent_.find(block);
  const std::size_t held = lent == lent_.end() ? size : lent->second;
  if (lent != lent_.end()) lent_.erase(lent);
  if (backing_ == AllocatorKind::memory) may_not_be_used(block, held);
  cached_[held].push_back(block);
  count(report_.by_tag[static_cast<std::size_t>(tag)], -static_cast<std::int64_t>(size));
  count(report_.total, -static_cast<std::int64_t>(size));
}

void Allocator::trim() noexcept {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

// Returns a cached block to the system: the smallest of at least that size, else the largest.
// Returns false without one. It frees one at a time, since freeing GPU memory synchronizes with the
// GPU.
bool Allocator::release_cached(std::size_t bytes) noexcept {
  std::erase_if(cached_, [](const auto& blocks) { return blocks.second.empty(); });
  if (cached_.empty()) return false;
  auto place = cached_.lower_bound(bytes);
  if (place == cached_.end()) --place;
  to_system(place->second.back(), place->first);
  place->second.pop_back();
  report_.reserved -= static_cast<std::int64_t>(place->first);
  return true;
}

void Allocator::trim_locked() noexcept {
  for (auto& [size, blocks] : cached_) {
    for (void* block : blocks) to_system(block, size);
    report_.reserved -= static_cast<std::int64_t>(size * blocks.size());
  }
  cached_.clear();
}

MemoryReport Allocator::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void Allocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  for (auto& tag : report_.by_tag) tag.peak = tag.live;
  report_.total.peak = report_.total.live;
}

}  // namespace longspan
