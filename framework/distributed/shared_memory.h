// Shared-memory transport between ranks of one machine: each rank owns a segment that the others
// map. Private to framework/distributed.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <string_view>

#include "framework/distributed/transport.h"

namespace longspan {

// One rank's memory for one group. It is a memfd without a file system name, so nothing remains
// however the process ends. Pages are committed on first use.
class SharedSegment {
 public:
  static constexpr std::size_t slots = 32;
  static constexpr std::size_t slot_bytes = std::size_t{512} << 10;

  struct Header {
    struct Chunk {
      std::uint64_t hash;  // of the ledger; a difference between ranks is a mismatch
      std::uint32_t slot;
    };
    std::uint64_t token = 0;
    // Numbers of chunks that this rank has published, combined and collected.
    alignas(64) std::atomic<std::uint64_t> published{0};
    alignas(64) std::atomic<std::uint64_t> combined{0};
    alignas(64) std::atomic<std::uint64_t> collected{0};
    alignas(64) std::array<Chunk, slots> chunks{};
  };
  static constexpr std::size_t header_bytes = 4096;
  static_assert(sizeof(Header) <= header_bytes);

  // Locates the segment for another rank of this machine.
  struct Address {
    std::int64_t process = 0;
    std::int64_t descriptor = -1;
    std::uint64_t token = 0;
  };

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  // Returns null where the system refuses the memory.
  static std::unique_ptr<SharedSegment> create();
  // Returns null when it is unreachable: another machine or container.
  static std::unique_ptr<SharedSegment> open(const Address& address);

  const Address& address() const { return address_; }
  // Call when all others have opened it or never will.
  void close_descriptor();

  Header& header() const { return *reinterpret_cast<Header*>(bytes_); }
  std::byte* slot(std::size_t index) const { return bytes_ + header_bytes + index * slot_bytes; }

 private:
  explicit SharedSegment(std::byte* bytes) : bytes_(bytes) {}

  std::byte* bytes_;
  Address address_;
};

// A group's operations form one stream of chunks, each with three stages. `publish` copies data for
// others into a slot of this rank's segment. `combine` reduces this rank's slice of the chunk over
// all ranks. `collect` copies the others' results. A rank may publish ahead up to its number of
// slots, so that a busy rank does not stall each chunk. Slots are reused last freed first, to stay
// in cache.
class SharedMemoryTransport : public Transport {
 public:
  // `segments`: one per rank of the group, in rank order.
  SharedMemoryTransport(int rank, std::vector<std::unique_ptr<SharedSegment>> segments);

  void start(std::shared_ptr<PendingCollective> operation) override;
  bool progress() override;
  bool suspects_mismatch() override { return mismatch_; }
  const std::string& error() const override { return error_; }

 private:
  struct Active {
    std::shared_ptr<PendingCollective> operation;
    std::uint64_t first = 0;  // index of its first chunk in the stream
    std::uint64_t chunks = 0;
    std::int64_t chunk_elements = 0;  // per part
    bool combines = false;            // has a combine stage: results are not read from slots
  };
  // One chunk of an operation: elements [begin, begin + count) of each part.
  struct Chunk {
    const Active* active;
    std::int64_t begin;
    std::int64_t count;
  };
  using Counter = std::atomic<std::uint64_t> SharedSegment::Header::*;

  int size() const { return static_cast<int>(segments_.size()); }
  Chunk chunk_at(std::uint64_t number) const;
  // Returns whether every other rank's counter exceeds `number`.
  bool all_past(Counter counter, std::uint64_t number, std::uint64_t& known) const;
  void free_slots();
  bool publish_next();
  bool combine_next();
  bool collect_next();
  bool same_collective(std::uint64_t number, const PendingCollective& operation);
  // Returns the slot in which `rank` has published the chunk.
  std::byte* published_by(int rank, std::uint64_t number) const;
  void publish(const Chunk& chunk, std::byte* slot) const;
  void combine(const Chunk& chunk, std::uint64_t number) const;
  void collect(const Chunk& chunk, std::uint64_t number) const;
  void reduce(const Chunk& chunk,
              std::uint64_t number,
              std::size_t slot_offset,
              const std::byte* own,
              std::byte* result,
              std::byte* second_result,
              std::int64_t count) const;

  int rank_;
  std::vector<std::unique_ptr<SharedSegment>> segments_;
  std::deque<Active> active_;
  std::uint64_t started_ = 0;  // chunks of all operations so far
  std::uint64_t published_ = 0;
  std::uint64_t combined_ = 0;
  std::uint64_t collected_ = 0;
  std::uint64_t freed_ = 0;                                    // chunks whose slot is free again
  std::array<std::uint32_t, SharedSegment::slots> slot_of_{};  // by chunk number
  std::vector<std::uint32_t> free_;
  // Lowest counters observed of the other ranks.
  std::uint64_t known_published_ = 0;
  std::uint64_t known_combined_ = 0;
  std::uint64_t known_collected_ = 0;
  bool mismatch_ = false;
  std::string error_;
};

}  // namespace longspan
