// Slots for the parts of a sequence over all ranks that share it, in tensors [slots, ...] with one
// entry per part. Private to framework/autograd.
#pragma once

#include <optional>
#include <vector>

#include "framework/autograd/ring_attention.h"

namespace longspan {

class SequenceSlots {
 public:
  // Number of parts of one rank's rows, in time order.
  explicit SequenceSlots(std::int64_t parts = 0);
  // One part for each query range of each rank. Every rank has the same number of slots, unused
  // ones last.
  explicit SequenceSlots(const SequenceShards& shares);

  std::int64_t total() const { return std::ssize(order_); }
  // Returns all slots in time order.
  const std::vector<std::int64_t>& order() const { return order_; }
  // Returns this rank's slots of a full tensor.
  Tensor local(const Tensor& all) const { return all.slice(first_, first_ + count_); }
  // Gathers the slots of all ranks. Unused slots keep their local values.
  void gather(const Tensor& all) const {
    if (ranks_) ranks_->all_gather(all.slice(first_, first_ + each_), all);
  }

  // Returns this rank's ranges as ranges of its rows.
  static Ranges rows_of(const Ranges& positions);

 private:
  std::optional<Communicator> ranks_;
  std::vector<std::int64_t> order_;
  std::int64_t each_ = 1;
  std::int64_t count_ = 0;
  std::int64_t first_ = 0;
};

}  // namespace longspan
