// Parts of a sequence over all ranks that share it: a slot for each, of tensors [slots, ...] that
// say something of each part. Private to framework/autograd.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "framework/autograd/ring_attention.h"

namespace longspan {

class TimeSlots {
 public:
  // So many parts of one rank's rows, in the order of time.
  explicit TimeSlots(std::int64_t parts = 0) : count_(parts) {
    order_.resize(static_cast<std::size_t>(parts));
    std::iota(order_.begin(), order_.end(), 0);
  }
  // A part for each range of queries of each rank. As many slots for each rank: those that nobody
  // fills stand last.
  explicit TimeSlots(const SequenceShares& shares) : ranks_(shares.ranks) {
    for (const Ranges& ranges : shares.queries) each_ = std::max(each_, std::ssize(ranges));
    count_ = std::ssize(shares.queries[shares.own()]);
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

  std::int64_t total() const { return std::ssize(order_); }
  // All of them, in the order of time.
  const std::vector<std::int64_t>& order() const { return order_; }
  // This rank's parts of a tensor of all.
  Tensor own(const Tensor& all) const { return all.slice(first_, first_ + count_); }
  // Brings the ranks' slots together; what nobody fills stays as it is here.
  void gather(const Tensor& all) const {
    if (ranks_) ranks_->all_gather(all.slice(first_, first_ + each_), all);
  }

  // The ranges of this rank, as parts of the rows that it holds.
  static Ranges rows_of(const Ranges& positions) {
    Ranges rows;
    std::int64_t begin = 0;
    for (const Range& range : positions) {
      rows.push_back({begin, begin + range.count()});
      begin += range.count();
    }
    return rows;
  }

 private:
  std::optional<Communicator> ranks_;
  std::vector<std::int64_t> order_;
  std::int64_t each_ = 1;
  std::int64_t count_ = 0;
  std::int64_t first_ = 0;
};

}  // namespace longspan
