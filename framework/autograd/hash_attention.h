// LSH attention (Reformer, Kitaev et al. 2020) as a recorded op. The sequence is sorted by bucket
// and split into chunks. Queries attend to keys in the same or a neighboring chunk, in any of
// several hash rounds. Time and memory are linear in the length.
#pragma once

#include <cstdint>

#include "framework/autograd/ops.h"

namespace longspan {

struct LshAttentionOptions {
  std::int64_t buckets = 1;     // ids 0 .. buckets - 1; id `buckets` is padding
  std::int64_t chunk = 64;      // slots per chunk of the sorted sequence
  std::int64_t look_back = 1;   // chunks before its own that a query attends to
  std::int64_t look_ahead = 0;  // chunks after its own
  bool causal = true;           // by original positions
  bool same_bucket = false;     // only keys in the query's bucket
  // Counts a key that occurs in several rounds once: the result is one softmax over the union of
  // the rounds. Otherwise it counts once per occurrence.
  bool count_once = true;
  // true: the chunk before the first one of a round is the last one of the previous round. false:
  // the last one of the same round.
  bool wrap_rounds = false;
  // score of a token with itself; must be so low that it counts only if no other key is visible
  double self_score = -1e5;
  double scale = 0;        // of the query-key products; 0: 1 / sqrt(dim)
  double count_floor = 0;  // added to the number of rounds in which a pair occurs (count_once)
  // [batch, time] u8, 1: padding that is hashed to a regular bucket, as in lucidrains'
  // implementation. It occupies a slot of a chunk, where it is masked. Padding with id `buckets` is
  // sorted to the end and occupies none.
  Tensor hidden = {};
};

// shared: [batch, time, heads, dim], the queries; normalized, they are the keys. value: [batch,
// time, heads, value_dim]. buckets: [batch, heads, rounds, time] i32, chosen by the caller
// (attention/hash_buckets.h), without gradient. Returns [batch, time, heads, value_dim]; zeros,
// without gradient, at padding.
//
// A sequence of one chunk uses full attention. Dropout elements are slots, with one random stream
// per round. Throws Failure for more than one but fewer than 1 + look_back + look_ahead chunks: a
// query would attend to a key twice.
Variable lsh_attention(const Variable& shared,
                       const Variable& value,
                       const Tensor& buckets,
                       const LshAttentionOptions& options,
                       const std::optional<AttentionDropout>& dropout = {});

}  // namespace longspan
