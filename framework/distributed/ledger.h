// The list of collectives that a rank has entered on one group. Ranks that time out compare their
// lists and report the first difference. Private to framework/distributed.
#pragma once

#include <array>
#include <optional>
#include <type_traits>

#include "framework/distributed/transport.h"

namespace longspan {

// One entry in wire format.
struct LedgerRecord {
  std::uint64_t sequence = 0;
  std::uint64_t hash = 0;  // the rolling hash up to and including this entry
  CollectiveSignature signature;
  std::array<char, 112> place{};  // "framework/nn/linear.cpp:45", truncated at the front
};
static_assert(std::is_trivially_copyable_v<LedgerRecord>);

// Returns "framework/nn/linear.cpp:45", relative to the repository.
std::string to_string(const Communicator::Place& place);
// Returns "all_reduce of 100 f32 at framework/nn/linear.cpp:45".
std::string to_string(const LedgerRecord& record);

class Ledger {
 public:
  static constexpr std::size_t kept = 64;

  // `seed` must be equal on all ranks of the group.
  explicit Ledger(std::uint64_t seed) : hash_(seed) {}

  // Numbers the operation and sets its rolling hash.
  void enter(PendingCollective& operation);
  // Returns the last `kept` entries, oldest first.
  std::vector<LedgerRecord> records() const;
  // Returns the hash of everything entered so far.
  std::uint64_t hash() const { return hash_; }

 private:
  struct Entry {
    std::uint64_t hash = 0;
    CollectiveSignature signature;
    Communicator::Place place;
  };
  std::array<Entry, kept> entries_;
  std::uint64_t entered_ = 0;
  std::uint64_t hash_;
};

// One rank's ledger of a group.
struct RankLedger {
  int rank = 0;  // in the world
  std::vector<LedgerRecord> records;

  std::uint64_t entered() const { return records.empty() ? 0 : records.back().sequence; }
  const LedgerRecord* find(std::uint64_t sequence) const;
};

// Returns the message for the first collective that differs between ranks. Returns nothing if,
// within the recorded entries, each rank's entries agree or are missing.
std::optional<std::string> first_mismatch(const std::string& group,
                                          std::vector<RankLedger> ledgers);

// Returns "rank 1", "ranks 1 and 3", "ranks 1, 2 and 3".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace longspan
