// The list of the collectives that a rank has entered on one group. Ranks that wait in vain compare
// their lists and name the first entry that differs. Private to framework/distributed.
#pragma once

#include <array>
#include <optional>
#include <type_traits>

#include "framework/distributed/operation.h"

namespace longspan {

// One entry as it is sent to other ranks.
struct LedgerRecord {
  std::uint64_t sequence = 0;
  std::uint64_t hash = 0;  // the rolling hash up to and with this entry
  CollectiveSignature signature;
  std::array<char, 112> place{};  // "framework/nn/linear.cpp:45", cut at the front where too long
};
static_assert(std::is_trivially_copyable_v<LedgerRecord>);

// "framework/nn/linear.cpp:45": the path within the tree.
std::string to_string(const Communicator::Place& place);
// "all_reduce of 100 f32 at framework/nn/linear.cpp:45".
std::string to_string(const LedgerRecord& record);

class Ledger {
 public:
  static constexpr std::size_t kept = 64;

  // `seed` is the same on all ranks of the group.
  explicit Ledger(std::uint64_t seed) : hash_(seed) {}

  // Numbers the operation and stamps it with the rolling hash.
  void enter(PendingCollective& operation);
  // The last `kept` entries, oldest first.
  std::vector<LedgerRecord> records() const;
  // Of everything entered so far.
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

// What one rank said about a group.
struct RankLedger {
  int rank = 0;  // in the world
  std::vector<LedgerRecord> records;

  std::uint64_t entered() const { return records.empty() ? 0 : records.back().sequence; }
  const LedgerRecord* find(std::uint64_t sequence) const;
};

// The sentence that names the first collective which differs between ranks; nothing when, as far as
// the ledgers reach, every rank has entered the same or fewer.
std::optional<std::string> first_mismatch(const std::string& group,
                                          std::vector<RankLedger> ledgers);

// "rank 1", "ranks 1 and 3", "ranks 1, 2 and 3".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace longspan
