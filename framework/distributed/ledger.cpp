#include "framework/distributed/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "framework/core/format.h"

namespace longspan {
namespace {

std::uint64_t mix(std::uint64_t x) {  // the finalizer of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t chain(std::uint64_t hash, const CollectiveSignature& signature) {
  const std::uint64_t kinds = static_cast<std::uint64_t>(signature.kind) |
                              static_cast<std::uint64_t>(signature.dtype) << 8 |
                              static_cast<std::uint64_t>(signature.reduction) << 16 |
                              static_cast<std::uint64_t>(signature.root + 1) << 24;
  hash = mix(hash + 0x9e3779b97f4a7c15u + kinds);
  return mix(hash ^ mix(static_cast<std::uint64_t>(signature.elements) + 1));
}

// Ranks that recorded equal signatures.
struct Party {
  std::vector<int> ranks;
  const LedgerRecord* record;
};

std::vector<Party> parties_at(std::uint64_t sequence, const std::vector<RankLedger>& ledgers) {
  std::vector<Party> parties;
  for (const RankLedger& ledger : ledgers) {
    const LedgerRecord* record = ledger.find(sequence);
    if (!record) continue;
    const auto same = std::find_if(parties.begin(), parties.end(), [&](const Party& party) {
      return party.record->signature == record->signature;
    });
    if (same != parties.end())
      same->ranks.push_back(ledger.rank);
    else
      parties.push_back({{ledger.rank}, record});
  }
  // Smallest parties first; between equals, those without the lowest rank.
  std::sort(parties.begin(), parties.end(), [](const Party& a, const Party& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() < b.ranks.size()
                                            : a.ranks.front() > b.ranks.front();
  });
  return parties;
}

}  // namespace

std::string_view name_of(CollectiveKind kind) {
  constexpr std::string_view names[] = {"all_reduce",
                                        "all_gather",
                                        "reduce_scatter",
                                        "all_to_all",
                                        "broadcast",
                                        "exchange",
                                        "barrier"};
  return names[static_cast<std::size_t>(kind)];
}

std::string to_string(const CollectiveSignature& signature) {
  if (signature.kind == CollectiveKind::barrier) return "barrier";
  std::string text = fmt::format(
      "{} of {} {}", name_of(signature.kind), signature.elements, name_of(signature.dtype));
  if (signature.kind == CollectiveKind::broadcast)
    text += fmt::format(" from rank {}", signature.root);
  if (signature.reduction == Reduction::maximum) text += " (maximum)";
  if (signature.reduction == Reduction::minimum) text += " (minimum)";
  return text;
}

std::string to_string(const Communicator::Place& place) { return format_source_location(place); }

std::string to_string(const LedgerRecord& record) {
  return fmt::format("{} at {}", to_string(record.signature), record.place.data());
}

void Ledger::enter(PendingCollective& operation) {
  hash_ = chain(hash_, operation.signature);
  operation.hash = hash_;
  entries_[entered_ % kept] = {hash_, operation.signature, operation.place};
  operation.sequence = ++entered_;
}

std::vector<LedgerRecord> Ledger::records() const {
  std::vector<LedgerRecord> result;
  const std::uint64_t first = entered_ > kept ? entered_ - kept : 0;
  for (std::uint64_t i = first; i < entered_; ++i) {
    const Entry& entry = entries_[i % kept];
    LedgerRecord record{i + 1, entry.hash, entry.signature, {}};
    const std::string place = to_string(entry.place);
    const std::size_t length = std::min(place.size(), record.place.size() - 1);
    std::memcpy(record.place.data(), place.data() + place.size() - length, length);
    result.push_back(record);
  }
  return result;
}

const LedgerRecord* RankLedger::find(std::uint64_t sequence) const {
  if (records.empty() || sequence < records.front().sequence || sequence > entered())
    return nullptr;
  return &records[sequence - records.front().sequence];
}

std::optional<std::string> first_mismatch(const std::string& group,
                                          std::vector<RankLedger> ledgers) {
  std::ranges::sort(ledgers, {}, &RankLedger::rank);
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  for (const RankLedger& ledger : ledgers) {
    if (ledger.records.empty()) continue;
    first = std::max(first, ledger.records.front().sequence);
    last = std::max(last, ledger.entered());
  }
  for (std::uint64_t sequence = first; first > 0 && sequence <= last; ++sequence) {
    const std::vector<Party> parties = parties_at(sequence, ledgers);
    if (parties.empty()) continue;
    if (parties.size() == 1) {
      // Equal entries with different hashes: the mismatch is older than the recorded entries.
      for (const RankLedger& ledger : ledgers)
        if (const LedgerRecord* record = ledger.find(sequence);
            record && record->hash != parties[0].record->hash)
          return fmt::format(
              "rank {} and rank {} called different collectives before collective {} on \"{}\"",
              ledger.rank,
              parties[0].ranks[0],
              sequence,
              group);
      continue;
    }
    std::string sentence = fmt::format("collective {} on \"{}\":", sequence, group);
    for (std::size_t i = 0; i < parties.size(); ++i)
      sentence += fmt::format("{} {} called {}",
                              i == 0 ? "" : ",",
                              name_ranks(parties[i].ranks),
                              to_string(*parties[i].record));
    return sentence;
  }
  return std::nullopt;
}

std::string name_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace longspan
