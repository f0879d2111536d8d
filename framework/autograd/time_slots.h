// Parts of a sequence over all ranks that share it: a slot for each, of tensors [slots, ...] that
// say something of each part. Private to framework/autograd.
#pragma once

#include <optional>
#include <vector>

#include "framework/autograd/ring_attention.h"

namespace longspan {

class SequenceSlots {
 public:
  // So many parts of one rank's rows, in the order of time.
  explicit SequenceSlots(std::int64_t parts = 0);
  // A part for each range of queries of each rank. As many slots for each rank: those that nobody
  // fills stand last.
  explicit SequenceSlots(const SequenceShards& shares);

  std::int64_t total() const { return std::ssize(order_); }
  // All of them, in the order of time.
  const std::vector<std::int64_t>& order() const { return order_; }
  // This rank's parts of a tensor of all.
  Tensor local(const Tensor& all) const { return all.slice(first_, first_ + count_); }
  // Brings the ranks' slots together; what nobody fills stays as it is here.
  void gather(const Tensor& all) const {
    if (ranks_) ranks_->all_gather(all.slice(first_, first_ + each_), all);
  }

  // The ranges of this rank, as parts of the rows that it holds.
  static Ranges rows_of(const Ranges& positions);

 private:
  std::optional<Communicator> ranks_;
  std::vector<std::int64_t> order_;
  std::int64_t each_ = 1;
  std::int64_t count_ = 0;
  std::int64_t first_ = 0;
};

}  // namespace longspan
