#include "framework/autograd/time_slots.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace longspan {

SequenceSlots::SequenceSlots(std::int64_t parts) : count_(parts) {
  order_.resize(static_cast<std::size_t>(parts));
  std::iota(order_.begin(), order_.end(), 0);
}

SequenceSlots::SequenceSlots(const SequenceShards& shares) : ranks_(shares.ranks) {
  for (const Ranges& ranges : shares.queries) each_ = std::max(each_, std::ssize(ranges));
  count_ = std::ssize(shares.queries[shares.local_index()]);
  first_ = each_ * shares.ranks.rank();
  std::vector<std::pair<Range, std::int64_t>> slots;
  const Range behind = {shares.keys_total, shares.keys_total + 1};
  for (std::int64_t rank = 0; rank < std::ssize(shares.queries); ++rank) {
    const Ranges& ranges = shares.queries[static_cast<std::size_t>(rank)];
    for (std::int64_t i = 0; i < each_; ++i)
      slots.emplace_back(i < std::ssize(ranges) ? ranges[static_cast<std::size_t>(i)] : behind,
                         rank * each_ + i);
  }
  std::ranges::stable_sort(
      slots, {}, [](const auto& slot) { return std::pair(slot.first.begin, slot.first.end); });
  for (const auto& [range, slot] : slots) order_.push_back(slot);
}

Ranges SequenceSlots::rows_of(const Ranges& positions) {
  Ranges rows;
  std::int64_t begin = 0;
  for (const Range& range : positions) {
    rows.push_back({begin, begin + range.count()});
    begin += range.count();
  }
  return rows;
}

}  // namespace longspan
