// Ring attention: attention over a sequence whose time is sharded over the ranks of a group (Liu et
// al. 2023; striped with chunks of both ends on each rank, Brandon et al. 2023).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/core/range.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// State of a dry device: bytes that backward passes counted without being run would have allocated.
struct AllocatedAgain {
  double bytes = 0;
};

// Assignment of queries and keys to ranks. Keys have the positions 0 to `keys_total`, queries
// `queries_total` positions from `memory` on. They can be from one sequence, whose first positions
// are keys only. They can also be from two, each with its own length and sharding.
struct SequenceShards {
  Communicator ranks;
  std::vector<Ranges> queries;  // positions of each rank's query rows, in order
  std::vector<Ranges> keys;     // positions of each rank's key and value rows, in order
  std::int64_t memory = 0;
  std::int64_t queries_total = 0;
  std::int64_t keys_total = 0;

  // Returns the queries of each rank, counted from the first query.
  std::vector<Ranges> query_rows() const {
    std::vector<Ranges> result = queries;
    for (Ranges& ranges : result)
      for (Range& range : ranges) range = {range.begin - memory, range.end - memory};
    return result;
  }
  std::size_t local_index() const { return static_cast<std::size_t>(ranks.rank()); }
};

// As `attention`, for this rank's queries over the keys of all ranks. query: [batch, own queries,
// heads, dim]; key, value: [batch, own keys, key heads, dim]. The mask is that of the unsharded
// call, except for its document bounds, which are for this rank's queries. Rules, lengths, padding
// (key_padding: [batch, keys_total]) and terms use positions of the full sequence, and so do sorted
// sequences ([batch, heads, queries_total] and [batch, heads, keys_total]). Ignores query_begin and
// key_begin. Dropout draws the same numbers as the unsharded call.
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

}  // namespace longspan
