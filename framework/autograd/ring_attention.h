// Attention over a sequence whose time is divided over the ranks of a group (ring attention: Liu et
// al. 2023; with chunks of both ends on each rank, Brandon et al. 2023).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/autograd/ops.h"
#include "framework/core/range.h"
#include "framework/distributed/communicator.h"

namespace longspan {

// Kept by a dry device: bytes that what was counted without being walked would have allocated.
struct AllocatedAgain {
  double bytes = 0;
};

// Which rank has which queries and keys. Keys stand at the positions from 0 to `keys_total`,
// queries at `queries_total` positions from `memory` on. They may be of one sequence, whose first
// positions are keys only, or of two, each with a length and a division of its own.
struct SequenceShards {
  Communicator ranks;
  std::vector<Ranges> queries;  // of each rank: the positions of its rows of queries, in order
  std::vector<Ranges> keys;     // the same of keys and values
  std::int64_t memory = 0;
  std::int64_t queries_total = 0;
  std::int64_t keys_total = 0;

  // Of each rank: its queries counted from the first of the sequence.
  std::vector<Ranges> query_rows() const {
    std::vector<Ranges> result = queries;
    for (Ranges& ranges : result)
      for (Range& range : ranges) range = {range.begin - memory, range.end - memory};
    return result;
  }
  std::size_t local_index() const { return static_cast<std::size_t>(ranks.rank()); }
};

// As `attention`, of this rank's queries over the keys of all ranks. query: [batch, own queries,
// heads, dim]; key, value: [batch, own keys, key heads, dim]. The mask is that of the undivided
// call, but for its reach, which is that of this rank's queries: its rules, lengths and padding
// (key_padding: [batch, keys_total]), the parts of a sequence in its own order ([batch, heads,
// queries_total] and [batch, heads, keys_total]) and the terms see positions of the whole sequence,
// its query_begin and key_begin are not read. Dropout draws what the undivided call draws. Keys and
// values go round the ring, the next rank's on their way while those at hand are computed with;
// parts are merged by log-sum-exp, and what the rules let no query of a rank see is not computed
// there. In the backward pass they go round again with their gradients, summed in the accumulator
// dtype. Rows without an allowed key are 0. Throws Failure for sequences in another order, for
// hashes, and for shares that do not hold each position once.
Variable ring_attention(const Variable& query,
                        const Variable& key,
                        const Variable& value,
                        const AttentionMask& mask,
                        const AttentionTerms& terms,
                        const std::optional<AttentionDropout>& dropout,
                        const SequenceShards& shares);

}  // namespace longspan
