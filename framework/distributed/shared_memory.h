// The transport between ranks on one machine: each rank owns a segment of memory that the others
// map. Private to framework/distributed.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <string_view>

#include "framework/distributed/transport.h"

namespace longspan {

// One rank's memory for one group. It has no name in any file system (memfd), so nothing is left
// behind however the process ends. Pages are taken from the system when they are first used.
class SharedSegment {
 public:
  static constexpr std::size_t slots = 32;
  static constexpr std::size_t slot_bytes = std::size_t{512} << 10;

  struct Header {
    struct Chunk {
      std::uint64_t hash;  // of the ledger: the same on all ranks, or they differ
      std::uint32_t slot;
    };
    std::uint64_t token = 0;
    // Chunks that this rank has published, combined and collected so far.
    alignas(64) std::atomic<std::uint64_t> published{0};
    alignas(64) std::atomic<std::uint64_t> combined{0};
    alignas(64) std::atomic<std::uint64_t> collected{0};
    alignas(64) std::array<Chunk, slots> chunks{};
  };
  static constexpr std::size_t header_bytes = 4096;
  static_assert(sizeof(Header) <= header_bytes);

  // How another rank of this machine finds the segment.
  struct Address {
    std::int64_t process = 0;
    std::int64_t descriptor = -1;
    std::uint64_t token = 0;
  };

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  // Null where the system gives none.
  static std::unique_ptr<SharedSegment> create();
  // Null when it cannot be reached: another machine, another container.
  static std::unique_ptr<SharedSegment> open(const Address& address);

  const Address& address() const { return address_; }
  // Others have opened it or never will.
  void close_descriptor();

  Header& header() const { return *reinterpret_cast<Header*>(bytes_); }
  std::byte* slot(std::size_t index) const { return bytes_ + header_bytes + index * slot_bytes; }

 private:
  explicit SharedSegment(std::byte* bytes) : bytes_(bytes) {}

  std::byte* bytes_;
  Address address_;
};

// All operations of the group are one stream of chunks, and each rank takes every chunk through
// three stages: `publish` copies what others need into a slot of its own segment, `combine` reduces
// the rank's slice of the chunk over all ranks, `collect` copies the others' results. A rank may
// publish as far ahead as it has slots, so that a rank which is busy with something else is not
// waited for at each chunk. Slots are reused last freed first: they stay in the cache.
class SharedMemoryTransport : public Transport {
 public:
  // `segments`: one a rank of the group, in rank order.
  SharedMemoryTransport(int rank, std::vector<std::unique_ptr<SharedSegment>> segments);

  void start(std::shared_ptr<PendingCollective> operation) override;
  bool progress() override;
  bool suspects_mismatch() override { return mismatch_; }
  const std::string& error() const override { return error_; }

 private:
  struct Active {
    std::shared_ptr<PendingCollective> operation;
    std::uint64_t first = 0;  // its first chunk in the stream
    std::uint64_t chunks = 0;
    std::int64_t chunk_elements = 0;  // of one part
    bool combines = false;            // has a combine stage: results are not taken from slots
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
  // True when every other rank's counter is past `number`.
  bool all_past(Counter counter, std::uint64_t number, std::uint64_t& known) const;
  void free_slots();
  bool publish_next();
  bool combine_next();
  bool collect_next();
  bool same_collective(std::uint64_t number, const PendingCollective& operation);
  // Where rank `rank` has published the chunk.
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
  // The least counters of the others that were seen.
  std::uint64_t known_published_ = 0;
  std::uint64_t known_combined_ = 0;
  std::uint64_t known_collected_ = 0;
  bool mismatch_ = false;
  std::string error_;
};

}  // namespace longspan
