// Ring attention: attention over a sequence whose time is sharded over the ranks of a group (Liu et
// al. 2023; striped with chunks of both ends on each rank, Brandon et al. 2023).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/core/range.h"
#include "framework/core/tensor.h"
#include "framework/distributed/communicator.h"
#include "framework/kernels/attention/attention.h"

namespace longspan {

// State of a dry device: bytes that backward passes counted without being run would have allocated.
struct AllocatedAgain {
  double bytes = 0;
};

// Assignment of queries and keys to ranks. Keys have the positions 0 to `keys_total`, queries
// `queries_total` positions from `memory` on. They can be from one sequence, whose first positions
// are keys only. They can also be from two, each with its own length and sharding. Or the queries
// are a chunk of a sequence with these totals, and attend to a range of the keys.
struct SequenceShards {
  Communicator ranks;
  std::vector<Ranges> queries;  // positions of each rank's query rows, in order
  std::vector<Ranges> keys;     // positions of each rank's key and value rows, in order
  std::int64_t memory = 0;
  std::int64_t queries_total = 0;
  std::int64_t keys_total = 0;
  Range chunk = {};       // positions of the queries; empty: all
  Range chunk_keys = {};  // positions of the keys that a chunk attends to

  // Returns the queries of each rank, counted from the first query, and the keys from the first
  // key.
  std::vector<Ranges> query_rows() const {
    return counted_from(queries, chunk.count() > 0 ? chunk.begin : memory);
  }
  std::vector<Ranges> key_rows() const { return counted_from(keys, chunk_keys.begin); }
  std::size_t local_index() const { return static_cast<std::size_t>(ranks.rank()); }

 private:
  static std::vector<Ranges> counted_from(std::vector<Ranges> positions, std::int64_t first) {
    for (Ranges& ranges : positions)
      for (Range& range : ranges) range = {range.begin - first, range.end - first};
    return positions;
  }
};

// As `attention`, for this rank's queries over the keys of all ranks. query: [batch, own queries,
// heads, dim]; key, value: [batch, own keys, key heads, dim]. The mask is that of the unsharded
// call, except for its document bounds, which are for this rank's queries. Rules, lengths, padding
// (key_padding: [batch, keys_total]) and terms use positions of the full sequence, and so do sorted
// sequences ([batch, heads, queries_total] and [batch, heads, keys_total]). Ignores query_begin and
// key_begin. For a chunk, padding and sorted sequences cover only its queries and the keys of all
// ranks. Dropout draws the same numbers as the unsharded call.
//
// Keys and values circulate around the ring, with transfers overlapping computation. Partial
// results are merged by log-sum-exp. Skips blocks whose keys are masked for all queries of a rank.
// In the backward pass they circulate again with their gradients, summed in the accumulator dtype.
// Rows without a visible key are 0. Throws Failure for sequences in another order, for hashes, and
// for shares that do not contain each position exactly once.
Variable ring_attention(const Variable& query,
                        const Variable& key,
                        const Variable& value,
                        const AttentionMask& mask,
                        const AttentionTerms& terms,
                        const std::optional<AttentionDropout>& dropout,
                        const SequenceShards& shares);

// Returns rows [begin, end) of one sequence of x [batch, time, heads, dim], without a copy.
Tensor rows_of(const Tensor& x, std::int64_t sequence, std::int64_t begin, std::int64_t end);

// Copies rows of x [batch, time, heads, dim] between tensors.
void move_rows(const Tensor& from,
               std::int64_t from_begin,
               const Tensor& to,
               std::int64_t to_begin,
               std::int64_t count);

// Returns the rows of x [batch, time, heads, dim] of each range as a separate tensor. Throws
// Failure if rows and positions differ in number.
std::vector<Tensor> pieces_of(const Tensor& x, const Ranges& ranges);
// Inverse. Requires at least one piece.
Tensor joined(const std::vector<Tensor>& pieces);

// Returns a range of the last axis of x; undefined if x is.
Tensor slice_columns(const Tensor& x, const Range& range);

// Returns the padding of each range of each rank, from that of all keys, [batch, positions] u8.
// Throws Failure if it does not cover all positions of the ranks.
std::vector<std::vector<Tensor>> padding_pieces(const Tensor& padding,
                                                std::int64_t batch,
                                                const std::vector<Ranges>& positions);

// Splits a sorted sequence by position ranges of queries and keys. Throws Failure if it does not
// cover all positions.
class SequenceParts {
 public:
  // `queries`: ranges of this rank, counted from the first query. `keys`: ranges of each rank.
  SequenceParts(const SortedSequence& whole,
                const Ranges& queries,
                const std::vector<Ranges>& keys);
  // Returns the parts for range i of the queries and range j of a rank's keys.
  SortedSequence between(std::size_t i, std::size_t rank, std::size_t j) const;

 private:
  SortedSequence whole_;
  std::vector<SortedSequence> queries_;
  std::vector<std::vector<SortedSequence>> keys_;
};

// Returns whether every position of a sequence is in exactly one range of one rank, and no range
// exceeds it.
bool cover_once(const std::vector<Ranges>& positions, const Range& sequence);

// Keys and values of one rank, or their gradients, in the layout for transfers: concatenated over
// position ranges, in a block sized for the largest rank.
class Block {
 public:
  struct Form {
    Shape key;    // [batch, any, heads, dim]
    Shape value;  // [batch, any, heads, value_dim]
    std::int64_t rows = 0;

    std::int64_t row_elements() const { return key[0] * key[2] * (key[3] + value[3]); }
  };

  Block() = default;
  Block(const Form& form, DType dtype, const Device& device, MemoryTag tag)
      : form_(form),
        elements_(Tensor::empty({form.rows * form.row_elements()}, dtype, device, tag)) {}

  const Tensor& elements() const { return elements_; }
  // Requires the ranges of the rank that owns the block.
  Tensor key(const Ranges& ranges, std::size_t i) const {
    const std::int64_t begin = begin_of(ranges, i);
    return view(begin, form_.key.with(1, ranges[i].count()));
  }
  Tensor value(const Ranges& ranges, std::size_t i) const {
    const Shape keys = form_.key.with(1, ranges[i].count());
    return view(begin_of(ranges, i) + keys.elements(), form_.value.with(1, ranges[i].count()));
  }

 private:
  std::int64_t begin_of(const Ranges& ranges, std::size_t i) const {
    std::int64_t rows = 0;
    for (std::size_t before = 0; before < i; ++before) rows += ranges[before].count();
    return rows * form_.row_elements();
  }
  Tensor view(std::int64_t begin, const Shape& shape) const {
    return elements_.slice(begin, begin + shape.elements()).reshape(shape);
  }

  Form form_;
  Tensor elements_;
};

// Slots for the parts of a sequence over all ranks that share it, in tensors [slots, ...] with one
// entry per part. Private to framework/autograd.

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
