// Hash attention (Reformer, Kitaev et al. 2020) as a recorded op: queries see the keys that fell
// into the same or a neighbouring chunk of the sequence sorted by bucket, in any of several rounds
// of hashing. Time and memory are linear in the length.
#pragma once

#include <cstdint>

#include "framework/autograd/ops.h"

namespace longspan {

struct LshAttentionOptions {
  std::int64_t buckets = 1;     // ids 0 .. buckets - 1; `buckets` itself is padding
  std::int64_t chunk = 64;      // slots of the sorted sequence that are one chunk
  std::int64_t look_back = 1;   // chunks before its own that a query sees
  std::int64_t look_ahead = 0;  // and after
  bool causal = true;           // by original positions
  bool same_bucket = false;     // only keys of the query's bucket
  // A key that is met in several rounds counts once: the result is then one softmax over the union
  // of what the rounds show. Otherwise it counts as often as it is met.
  bool count_once = true;
  // The chunk before the first is the last of the same round or, with this, of the round before.
  bool wrap_rounds = false;
  double self_score = -1e5;  // of a token with itself: low enough to count only where it is alone
  double scale = 0;          // of the products; 0: 1 / sqrt(dim)
  double count_floor = 0;    // added to the number of rounds a pair met in (count_once)
  // [batch, time] u8, 1: the token is padding that has a bucket like any other, as in lucidrains'
  // implementation: it takes its place in a chunk, where nobody sees it. Padding with a bucket of
  // its own stands at the end, and leaves the places to others.
  Tensor hidden = {};
};

// shared: [batch, time, heads, dim], the queries; divided by their length they are the keys. value:
// [batch, time, heads, value_dim]. buckets: [batch, heads, rounds, time] i32, a decision of the
// caller's (attention/hash_buckets.h): nothing flows back into it. Result: [batch, time, heads,
// value_dim]; zeros, and no gradient, at padding. A sequence of one chunk is attended whole. The
// dropout's elements are slots, a stream of numbers a round. Throws Failure when there are more
// than one and fewer than 1 + look_back + look_ahead chunks: a query would see a key twice.
Variable lsh_attention(const Variable& shared,
                       const Variable& value,
                       const Tensor& buckets,
                       const LshAttentionOptions& options,
                       const std::optional<AttentionDropout>& dropout = {});

}  // namespace longspan
