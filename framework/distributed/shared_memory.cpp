#include "framework/distributed/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <random>

namespace longspan {
namespace {

constexpr std::size_t segment_bytes =
    SharedSegment::header_bytes + SharedSegment::slots * SharedSegment::slot_bytes;
// Up to this size every rank reduces the full tensor, which saves one synchronization of the ranks.
constexpr std::size_t small_reduction_bytes = 8192;
// Slices of a chunk are aligned to cache lines.
constexpr std::int64_t line_elements = 64;

std::byte* map(int descriptor) {
  void* bytes = mmap(nullptr, segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return bytes == MAP_FAILED ? nullptr : static_cast<std::byte*>(bytes);
}

// Returns slice `index` of `parts` of `count` elements.
struct Slice {
  std::int64_t begin;
  std::int64_t end;
};
Slice slice_of(std::int64_t count, int index, int parts) {
  const auto edge = [&](std::int64_t i) {
    return i == parts ? count : count * i / parts / line_elements * line_elements;
  };
  return {edge(index), edge(index + 1)};
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

std::unique_ptr<SharedSegment> SharedSegment::create() {
  const int descriptor = memfd_create("longspan", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  std::byte* bytes =
      ftruncate(descriptor, static_cast<off_t>(segment_bytes)) == 0 ? map(descriptor) : nullptr;
  if (!bytes) {
    ::close(descriptor);
    return nullptr;
  }
  std::unique_ptr<SharedSegment> segment(new SharedSegment(bytes));
  std::random_device source;
  Header* header = new (bytes) Header;
  header->token = static_cast<std::uint64_t>(source()) << 32 | source();
  segment->address_ = {getpid(), descriptor, header->token};
  return segment;
}

std::unique_ptr<SharedSegment> SharedSegment::open(const Address& address) {
  if (address.descriptor < 0) return nullptr;
  const std::string path = fmt::format("/proc/{}/fd/{}", address.process, address.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  // On another machine the descriptor may refer to anything: only a file of the exact size is
  // mapped.
  const bool fits = lseek(descriptor, 0, SEEK_END) == static_cast<off_t>(segment_bytes);
  std::byte* bytes = fits ? map(descriptor) : nullptr;
  ::close(descriptor);
  if (!bytes) return nullptr;
  std::unique_ptr<SharedSegment> segment(new SharedSegment(bytes));
  if (segment->header().token != address.token) return nullptr;
  return segment;
}

void SharedSegment::close_descriptor() {
  if (address_.descriptor >= 0) ::close(static_cast<int>(address_.descriptor));
  address_.descriptor = -1;
}

SharedSegment::~SharedSegment() {
  close_descriptor();
  munmap(bytes_, segment_bytes);
}

SharedMemoryTransport::SharedMemoryTransport(int rank,
                                             std::vector<std::unique_ptr<SharedSegment>> segments)
    : rank_(rank), segments_(std::move(segments)) {
  for (std::size_t i = SharedSegment::slots; i > 0; --i)
    free_.push_back(static_cast<std::uint32_t>(i - 1));
}

void SharedMemoryTransport::start(std::shared_ptr<PendingCollective> operation) {
  Active active;
  const std::size_t element = operation->element_size();
  const CollectiveKind kind = operation->signature.kind;
  const bool parted = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all;
  const auto room = static_cast<std::int64_t>(SharedSegment::slot_bytes / element);
  // Parts are aligned to cache lines, so that no line is written by two ranks' copies.
  active.chunk_elements = parted ? room / size() / line_elements * line_elements : room;
  const std::int64_t part = operation->part;
  active.chunks = static_cast<std::uint64_t>(
      part == 0 ? 1 : (part + active.chunk_elements - 1) / active.chunk_elements);
  active.first = started_;
  active.combines = kind == CollectiveKind::all_reduce &&
                    static_cast<std::size_t>(part) * element > small_reduction_bytes;
  active.operation = std::move(operation);
  started_ += active.chunks;
  active_.push_back(std::move(active));
}

bool SharedMemoryTransport::progress() {
  bool moved = false;
  while (!active_.empty() && !mismatch_) {
    // Interleaves all three stages, so that one chunk's copies overlap with the others' and hit the
    // cache.
    const bool published = publish_next();
    const bool combined = combine_next();
    const bool collected = collect_next();
    if (!published && !combined && !collected) break;
    moved = true;
  }
  return moved;
}

SharedMemoryTransport::Chunk SharedMemoryTransport::chunk_at(std::uint64_t number) const {
  const auto active = std::find_if(active_.begin(), active_.end(), [&](const Active& candidate) {
    return number < candidate.first + candidate.chunks;
  });
  const auto begin = static_cast<std::int64_t>(number - active->first) * active->chunk_elements;
  return {&*active, begin, std::min(active->chunk_elements, active->operation->part - begin)};
}

bool SharedMemoryTransport::all_past(Counter counter,
                                     std::uint64_t number,
                                     std::uint64_t& known) const {
  if (known > number) return true;
  std::uint64_t least = ~std::uint64_t{0};
  for (int rank = 0; rank < size(); ++rank)
    if (rank != rank_)
      least = std::min(least,
                       (segments_[static_cast<std::size_t>(rank)]->header().*counter)
                           .load(std::memory_order_acquire));
  known = least;
  return least > number;
}

void SharedMemoryTransport::free_slots() {
  while (freed_ < collected_ &&
         all_past(&SharedSegment::Header::collected, freed_, known_collected_))
    free_.push_back(slot_of_[freed_++ % SharedSegment::slots]);
}

bool SharedMemoryTransport::publish_next() {
  if (published_ == started_) return false;
  if (freed_ < collected_) free_slots();
  if (free_.empty()) return false;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  const Chunk chunk = chunk_at(published_);
  SharedSegment& mine = *segments_[static_cast<std::size_t>(rank_)];
  publish(chunk, mine.slot(slot));
  slot_of_[published_ % SharedSegment::slots] = slot;
  mine.header().chunks[published_ % SharedSegment::slots] = {chunk.active->operation->hash, slot};
  mine.header().published.store(++published_, std::memory_order_release);
  return true;
}

bool SharedMemoryTransport::combine_next() {
  if (combined_ == published_ ||
      !all_past(&SharedSegment::Header::published, combined_, known_published_))
    return false;
  const Chunk chunk = chunk_at(combined_);
  if (!same_collective(combined_, *chunk.active->operation)) return false;
  if (chunk.active->combines) combine(chunk, combined_);
  segments_[static_cast<std::size_t>(rank_)]->header().combined.store(++combined_,
                                                                      std::memory_order_release);
  return true;
}

bool SharedMemoryTransport::collect_next() {
  if (collected_ == combined_) return false;
  const Chunk chunk = chunk_at(collected_);
  if (chunk.active->combines &&
      !all_past(&SharedSegment::Header::combined, collected_, known_combined_))
    return false;
  collect(chunk, collected_);
  segments_[static_cast<std::size_t>(rank_)]->header().collected.store(++collected_,
                                                                       std::memory_order_release);
  if (collected_ == chunk.active->first + chunk.active->chunks) {
    active_.front().operation->done = true;
    active_.pop_front();
  }
  return true;
}

bool SharedMemoryTransport::same_collective(std::uint64_t number,
                                            const PendingCollective& operation) {
  for (const auto& segment : segments_)
    if (segment->header().chunks[number % SharedSegment::slots].hash != operation.hash)
      mismatch_ = true;
  return !mismatch_;
}

std::byte* SharedMemoryTransport::published_by(int rank, std::uint64_t number) const {
  const SharedSegment& segment = *segments_[static_cast<std::size_t>(rank)];
  return segment.slot(segment.header().chunks[number % SharedSegment::slots].slot);
}

void SharedMemoryTransport::publish(const Chunk& chunk, std::byte* slot) const {
  const PendingCollective& operation = *chunk.active->operation;
  const std::size_t element = operation.element_size();
  const std::byte* source = operation.send + static_cast<std::size_t>(chunk.begin) * element;
  const std::size_t bytes = static_cast<std::size_t>(chunk.count) * element;
  switch (operation.signature.kind) {
    case CollectiveKind::barrier:
      return;
    case CollectiveKind::broadcast:
      if (operation.root == rank_) copy_bytes(slot, source, bytes);
      return;
    case CollectiveKind::all_gather:
    case CollectiveKind::exchange:
      return copy_bytes(slot, source, bytes);
    case CollectiveKind::all_reduce: {
      if (!chunk.active->combines) return copy_bytes(slot, source, bytes);
      const Slice own = slice_of(chunk.count, rank_, size());  // no other rank reads it
      const std::size_t begin = static_cast<std::size_t>(own.begin) * element;
      const std::size_t end = static_cast<std::size_t>(own.end) * element;
      copy_bytes(slot, source, begin);
      return copy_bytes(slot + end, source + end, bytes - end);
    }
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      for (int rank = 0; rank < size(); ++rank) {
        const std::int64_t in_slot = rank * chunk.active->chunk_elements;
        if (rank != rank_)
          copy_bytes(slot + static_cast<std::size_t>(in_slot) * element,
                     source + static_cast<std::size_t>(rank * operation.part) * element,
                     bytes);
      }
      return;
  }
}

void SharedMemoryTransport::combine(const Chunk& chunk, std::uint64_t number) const {
  const PendingCollective& operation = *chunk.active->operation;
  const std::size_t element = operation.element_size();
  const Slice own = slice_of(chunk.count, rank_, size());
  const std::size_t in_chunk = static_cast<std::size_t>(own.begin) * element;
  std::byte* result =
      operation.receive + static_cast<std::size_t>(chunk.begin) * element + in_chunk;
  reduce(chunk,
         number,
         in_chunk,
         result,
         result,
         published_by(rank_, number) + in_chunk,
         own.end - own.begin);
}

void SharedMemoryTransport::reduce(const Chunk& chunk,
                                   std::uint64_t number,
                                   std::size_t slot_offset,
                                   const std::byte* own,
                                   std::byte* result,
                                   std::byte* second_result,
                                   std::int64_t count) const {
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < size(); ++rank)
    sources.push_back(rank == rank_ ? own : published_by(rank, number) + slot_offset);
  const std::array<std::byte*, 2> results = {result, second_result};
  const CollectiveSignature& signature = chunk.active->operation->signature;
  reduce_in_order(signature.dtype,
                  signature.reduction,
                  sources,
                  std::span(results).first(second_result ? 2 : 1),
                  count);
}

void SharedMemoryTransport::collect(const Chunk& chunk, std::uint64_t number) const {
  const PendingCollective& operation = *chunk.active->operation;
  const std::size_t element = operation.element_size();
  const std::size_t begin = static_cast<std::size_t>(chunk.begin) * element;
  const std::size_t bytes = static_cast<std::size_t>(chunk.count) * element;
  const std::size_t part = static_cast<std::size_t>(operation.part) * element;
  std::byte* const target = operation.receive + begin;
  const auto local_part = static_cast<std::size_t>(rank_) * part;
  const std::size_t own_in_slot = static_cast<std::size_t>(rank_) *
                                  static_cast<std::size_t>(chunk.active->chunk_elements) * element;
  switch (operation.signature.kind) {
    case CollectiveKind::barrier:
      return;
    case CollectiveKind::broadcast:
      if (operation.root != rank_) copy_bytes(target, published_by(operation.root, number), bytes);
      return;
    case CollectiveKind::exchange:
      return copy_bytes(target, published_by(operation.from, number), bytes);
    case CollectiveKind::all_reduce:
      if (!chunk.active->combines)
        return reduce(chunk, number, 0, target, target, nullptr, chunk.count);
      for (int rank = 0; rank < size(); ++rank) {
        const Slice slice = slice_of(chunk.count, rank, size());
        const std::size_t at = static_cast<std::size_t>(slice.begin) * element;
        const std::size_t length = static_cast<std::size_t>(slice.end - slice.begin) * element;
        if (rank != rank_) copy_bytes(target + at, published_by(rank, number) + at, length);
      }
      return;
    case CollectiveKind::reduce_scatter:
      return reduce(chunk,
                    number,
                    own_in_slot,
                    operation.send + local_part + begin,
                    target,
                    nullptr,
                    chunk.count);
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      for (int rank = 0; rank < size(); ++rank) {
        std::byte* to = target + static_cast<std::size_t>(rank) * part;
        const bool gather = operation.signature.kind == CollectiveKind::all_gather;
        if (rank == rank_)
          copy_bytes(to, operation.send + begin + (gather ? 0 : local_part), bytes);
        else
          copy_bytes(to, published_by(rank, number) + (gather ? 0 : own_in_slot), bytes);
      }
      return;
  }
}

}  // namespace longspan
