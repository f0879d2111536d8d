// Locality-sensitive hashing of vectors by random rotations (Andoni et al. 2015), and sorting of a
// sequence by bucket, for hash attention (Reformer, Kitaev et al. 2020).
#pragma once

#include <cstdint>

#include "framework/core/tensor.h"

namespace longspan {

// Number of buckets of one hash, or of two independent hashes: first * second. Each factor is even,
// or 1.
struct BucketCount {
  std::int64_t first = 1;
  std::int64_t second = 1;

  std::int64_t total() const { return first * second; }
  // Random directions of a hash; the opposite of each direction also has a bucket.
  std::int64_t columns() const { return first / 2 + second / 2; }
  friend bool operator==(const BucketCount&, const BucketCount&) = default;
};

// Splits a number of buckets that is at least 64 and a multiple of 4 into the two even factors with
// the smallest sum. This gives, for example, two hashes of 128 directions in total instead of one
// of 16,384. Throws Failure for an odd number other than 1.
BucketCount factored(std::int64_t buckets);

// The bucket of x in a round is the index of the largest of [x R; -x R]; ties go to the first. With
// two factors it is h1 + first * h2, and R has the columns of h1 followed by those of h2. Padding
// has its own bucket, `count.total()`. A single bucket needs no rotations. x: [batch, time, heads,
// dim]. rotations: [heads, dim, rounds, count.columns()], x's accumulator dtype. padding: [batch,
// time] u8, 1 at padding; length: [batch] i64, positions from there on are padding. Either may be
// undefined. buckets: [batch, heads, rounds, time] i32, overwritten.
struct BucketHash {
  Tensor x;
  Tensor rotations;
  BucketCount count;
  Tensor padding = {};
  Tensor length = {};
  Tensor buckets;
};
void hash_buckets(Cpu, const BucketHash&);
void hash_buckets(Cuda, const BucketHash&);

// Stable sort by bucket. order[.., s] is the position of element s of the sorted sequence;
// place[.., t] is the sorted index of position t, the inverse permutation. Elements of bucket
// `buckets` are padding and are omitted: their place is -1, and the last entries of order are -1.
// bucket, order, place: [.., time] i32; each row is a sequence. Takes linear time. On the CPU,
// throws Failure if a bucket is not in 0 .. buckets. A GPU call cannot throw without synchronizing,
// so it treats such an element as padding.
struct BucketSort {
  Tensor bucket;
  std::int64_t buckets = 0;
  Tensor order = {};
  Tensor place = {};
};
void sort_buckets(Cpu, const BucketSort&);
void sort_buckets(Cuda, const BucketSort&);

// Throws Failure if the shapes or dtypes of the tensors do not match.
void check(const BucketHash&);
void check(const BucketSort&);

}  // namespace longspan
